import { call } from "../../api/client";
import { isOver } from "../../api/queries";
import type { CrawlItem, CrawlView } from "../../generated/api";
import { useT } from "../../i18n";
import { usePages } from "../../lib/pages";
import { Card, Empty, Loaded } from "../../ui/basics";
import { ItemTable } from "../../ui/ItemTable";
import { More } from "../../ui/Listing";

/** What was taken from the pages, as far as it is committed. */
export function Items({ crawl }: { crawl: CrawlView }) {
  const t = useT();
  const id = crawl.task_id;
  const found = usePages<CrawlItem>(
    ["crawl", id, "items"],
    (cursor) =>
      call("get", "/api/v1/crawls/{task_id}/items", {
        path: { task_id: id },
        query: { limit: 50, ...(cursor ? { cursor } : {}) },
      }),
    isOver(crawl.state) ? false : 5000,
  );
  return (
    <Card flush>
      <Loaded of={found} rows={8}>
        {(items) =>
          items.length === 0 ? (
            <Empty icon="crawls" title={t("items.none")}>
              {t("items.noneText")}
            </Empty>
          ) : (
            <ItemTable items={items} />
          )
        }
      </Loaded>
      <More of={found} verb={t("items.more")} />
    </Card>
  );
}
