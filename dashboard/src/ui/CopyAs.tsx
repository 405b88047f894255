import { useState } from "react";
import { useT } from "../i18n";
import { asCli, asCurl, asPython, type TaskRequest } from "../lib/snippets";
import { Command, Segments } from "./basics";

const WAYS = { cli: asCli, curl: asCurl, python: asPython };
type Way = keyof typeof WAYS;

/** The same request for a terminal or a program. */
export function CopyAs({ request }: { request: TaskRequest }) {
  const t = useT();
  const [way, setWay] = useState<Way>("cli");
  return (
    <div className="stack tight">
      <Segments
        label={t("copyAs.title")}
        value={way}
        options={[
          ["cli", t("copyAs.cli")],
          ["curl", "curl"],
          ["python", "Python"],
        ]}
        onChange={setWay}
      />
      <Command text={WAYS[way](request, location.origin)} />
    </div>
  );
}
