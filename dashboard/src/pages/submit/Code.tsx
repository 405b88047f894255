import { useQuery } from "@tanstack/react-query";
import { bundles } from "../../api/queries";
import type { BundleVersionView, BundleView } from "../../generated/api";
import { useT, useWord } from "../../i18n";
import { Link } from "../../lib/router";
import { Card, Field } from "../../ui/basics";

/** The task types that run code of bundles; the first cannot do without. */
const USERS = ["scrapy_spider", "python", "command"];

export function usesBundles(type: string): boolean {
  return USERS.includes(type);
}

/** The bundle and the version that `name` or `name@3` means. */
function chosen(
  items: readonly BundleView[],
  text: string,
): [BundleView | undefined, BundleVersionView | undefined] {
  const [name, number] = text.split("@");
  const bundle = items.find((each) => each.name === name);
  const wanted = number ? Number(number) : bundle?.current;
  return [bundle, bundle?.versions.find((each) => each.version === wanted)];
}

/** The spiders of the code that is chosen. */
export function useSpiders(projectId: string, text: string, enabled: boolean): string[] {
  const found = useQuery({ ...bundles(projectId), enabled });
  return chosen(found.data?.items ?? [], text)[1]?.spiders ?? NONE;
}

const NONE: string[] = [];

interface CodeProps {
  type: string;
  projectId: string;
  value: string;
  wrong: string | undefined;
  onChange: (value: string) => void;
}

/** Which bundle a task runs, and which version of it. */
export function Code({ type, projectId, value, wrong, onChange }: CodeProps) {
  const t = useT();
  const word = useWord();
  const found = useQuery(bundles(projectId));
  const items = found.data?.items ?? [];
  const [bundle] = chosen(items, value);
  const needed = type === "scrapy_spider";
  const [name = "", number = ""] = value.split("@");
  const known = name === "" || items.some((each) => each.name === name);
  const deploy = `/bundles?project=${encodeURIComponent(projectId)}`;
  return (
    <Card title={t("code.title")}>
      <div className="two">
        <Field
          label={needed ? `${t("code.bundle")} *` : t("code.bundle")}
          wrong={wrong}
          hint={
            found.data && items.length === 0 ? (
              <>
                {t("code.noBundles")} <Link to={deploy}>{t("code.deploy")}</Link>
              </>
            ) : (
              t(needed ? "code.hintNeeded" : "code.hint")
            )
          }
        >
          {(id, note) => (
            <select
              id={id}
              aria-describedby={note}
              className="select"
              required={needed}
              value={name}
              onChange={(event) => onChange(event.target.value)}
            >
              <option value="">{t(needed ? "code.choose" : "code.none")}</option>
              {!known && <option value={name}>{name}</option>}
              {items.map((each) => (
                <option key={each.name} value={each.name}>
                  {each.name} · {word("bundleKind", each.versions[0]?.kind ?? "")}
                </option>
              ))}
            </select>
          )}
        </Field>
        {bundle && (
          <Field label={t("code.version")} hint={t("bundles.pinned")}>
            {(id, note) => (
              <select
                id={id}
                aria-describedby={note}
                className="select"
                value={number}
                onChange={(event) =>
                  onChange(event.target.value ? `${name}@${event.target.value}` : name)
                }
              >
                <option value="">{t("code.newest", { n: bundle.current })}</option>
                {bundle.versions.map((each) => (
                  <option key={each.version} value={each.version}>
                    @{each.version} {each.note}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
      </div>
    </Card>
  );
}
