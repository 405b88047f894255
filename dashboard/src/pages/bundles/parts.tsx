/** What both pages about bundles show. */
import { useQuery } from "@tanstack/react-query";
import { nodes } from "../../api/queries";
import { useVisitor } from "../../app/session";
import type { BundleVersionView } from "../../generated/api";
import { useT } from "../../i18n";
import { bytes } from "../../lib/format";
import { Link } from "../../lib/router";
import { Ago, Chip } from "../../ui/basics";

export function Spiders({ names, most = 200 }: { names: readonly string[]; most?: number }) {
  const t = useT();
  if (names.length === 0) return <span className="muted">–</span>;
  return (
    <span className="row wrap tight">
      {names.slice(0, most).map((name) => (
        <Chip key={name}>{name}</Chip>
      ))}
      {names.length > most && (
        <span className="muted small">{t("work.more", { n: names.length - most })}</span>
      )}
    </span>
  );
}

export function Size({ version }: { version: BundleVersionView }) {
  const t = useT();
  return (
    <span className="nowrap">
      {bytes(version.bytes)}
      <div className="muted small">{t("bundles.files", { n: version.files })}</div>
    </span>
  );
}

/** `deployed by ann`: who, and when. */
export function Deployed({ version }: { version: BundleVersionView }) {
  return (
    <>
      <Ago at={version.created_at} />
      <div className="muted small nowrap">{version.cause.replace(/^deployed by /, "")}</div>
    </>
  );
}

/** The nodes that have the environment of a version. */
export function ReadyOn({ version }: { version: BundleVersionView }) {
  const t = useT();
  const { seesFleet } = useVisitor();
  const fleet = useQuery({ ...nodes, enabled: seesFleet });
  const ready = version.ready_on ?? [];
  if (!seesFleet) return <span className="muted">–</span>;
  if (ready.length === 0) return <span className="muted small">{t("bundles.nowhere")}</span>;
  const named = new Map(fleet.data?.items.map((node) => [node.id, node.name]));
  return (
    <span className="row wrap tight">
      {ready.slice(0, 6).map((id) => (
        <Link key={id} to={`/nodes/${encodeURIComponent(id)}`} className="chip ok">
          {named.get(id) ?? id}
        </Link>
      ))}
      {ready.length > 6 && (
        <span className="muted small">{t("work.more", { n: ready.length - 6 })}</span>
      )}
    </span>
  );
}
