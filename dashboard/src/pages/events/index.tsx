import { useVisitor } from "../../app/session";
import { useT } from "../../i18n";
import { useSearch } from "../../lib/router";
import { PageHead } from "../../ui/basics";
import { Tabs } from "../../ui/Tabs";
import { Audit } from "./Audit";
import { Stream } from "./Stream";

export default function Events() {
  const t = useT();
  const { administers } = useVisitor();
  const [search] = useSearch();
  const tab = administers ? (search.get("tab") ?? "events") : "events";
  return (
    <>
      <PageHead title={<h1>{t("nav.events")}</h1>} />
      {administers && (
        <Tabs
          label={t("nav.events")}
          current={tab}
          tabs={[
            ["events", t("nav.events")],
            ["audit", t("audit.title")],
          ]}
        />
      )}
      {tab === "audit" ? <Audit /> : <Stream />}
    </>
  );
}
