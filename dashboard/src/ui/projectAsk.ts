import { useQuery } from "@tanstack/react-query";
import { projects } from "../api/queries";
import { useVisitor } from "../app/session";
import { useT } from "../i18n";
import type { Ask } from "./FormDialog";

/** Which project something is about, asked of those who see more than one. */
export function useProjectAsk(hint = ""): Ask[] {
  const t = useT();
  const { seesFleet } = useVisitor();
  const { data } = useQuery({ ...projects, enabled: seesFleet });
  if (!seesFleet) return [];
  const named = (data?.items ?? []).map((each): [string, string] => [each.id, each.name]);
  const options: [string, string][] = [["", t("keys.all")], ...named];
  return [{ name: "project_id", label: t("tasks.project"), hint, options }];
}
