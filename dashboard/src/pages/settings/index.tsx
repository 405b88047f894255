import type { ComponentType } from "react";
import { useVisitor } from "../../app/session";
import { type Key, useT } from "../../i18n";
import { Link, matchPath, usePlace } from "../../lib/router";
import { Card, PageHead } from "../../ui/basics";
import { Clusters } from "./Clusters";
import { Device } from "./Device";
import { JoinTokens } from "./JoinTokens";
import { Keys } from "./Keys";
import { Master } from "./Master";
import { Projects } from "./Projects";

interface Section {
  name: string;
  title: Key;
  view: ComponentType;
  forAdmins: boolean;
}

const SECTIONS: Section[] = [
  { name: "keys", title: "settings.keys", view: Keys, forAdmins: true },
  { name: "join-tokens", title: "settings.join-tokens", view: JoinTokens, forAdmins: true },
  { name: "clusters", title: "settings.clusters", view: Clusters, forAdmins: false },
  { name: "projects", title: "settings.projects", view: Projects, forAdmins: false },
  { name: "master", title: "settings.master", view: Master, forAdmins: true },
  { name: "device", title: "settings.device", view: Device, forAdmins: false },
];

export default function Settings() {
  const t = useT();
  const { administers } = useVisitor();
  const { path } = usePlace();
  const shown = SECTIONS.filter((section) => administers || !section.forAdmins);
  const name = matchPath("/settings/{section}", path)?.section ?? shown[0]?.name;
  const section = shown.find((each) => each.name === name);
  const View = section?.view;
  return (
    <>
      <PageHead title={<h1>{t("nav.settings")}</h1>} />
      <nav className="tabs" aria-label={t("nav.settings")}>
        {shown.map((each) => (
          <Link
            key={each.name}
            to={`/settings/${each.name}`}
            aria-current={each === section ? "page" : undefined}
          >
            {t(each.title)}
          </Link>
        ))}
      </nav>
      {View ? <View /> : <Card>{t("common.forbidden")}</Card>}
    </>
  );
}
