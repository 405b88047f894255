import { useT } from "../i18n";
import { Link } from "../lib/router";
import { Card, Empty } from "./basics";

/** How a fleet without nodes gets some. */
export function NoNodes() {
  const t = useT();
  return (
    <Card>
      <Empty
        icon="nodes"
        title={t("nodes.emptyTitle")}
        command={`crawlfleet worker --master ${location.origin} --join TOKEN`}
      >
        {t("nodes.emptyText")} <Link to="/settings/join-tokens">{t("nodes.emptyLink")}</Link>
      </Empty>
    </Card>
  );
}
