import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call } from "../../api/client";
import type { UsageReport } from "../../generated/api";
import { useT } from "../../i18n";
import { useSearch } from "../../lib/router";
import { isCounted, METRICS, type Metric, told, totals, usageLines } from "../../lib/usage";
import { Bars, Card, Empty, Loaded, Segments } from "../../ui/basics";
import { Chart, Legend } from "../../ui/Chart";

const MOST_LINES = 5;

function Report({ report, metric }: { report: UsageReport; metric: Metric }) {
  const t = useT();
  const { at, lines } = useMemo(() => {
    const found = usageLines(report, metric, MOST_LINES);
    const drawn = found.lines.map((line, index) => ({
      name: line.project,
      values: line.values,
      colour: `--series-${index + 1}`,
    }));
    const rest = found.others
      ? [{ name: t("usage.others"), values: found.others.values, colour: "--series-6" }]
      : [];
    return { at: found.at, lines: [...drawn, ...rest] };
  }, [report, metric, t]);
  const sums = totals(report.items, metric);
  return (
    <div className="grid">
      <div className="span-8">
        <Card title={t(`usage.${metric}`)} aside={<Legend lines={lines} />}>
          <Chart
            label={t(`usage.${metric}`)}
            at={at}
            lines={lines}
            stacked
            height={280}
            whole={isCounted(metric)}
            format={(value) => told(metric, value)}
          />
        </Card>
      </div>
      <div className="span-4">
        <Card title={t("usage.byProject")}>
          <Bars rows={sums.slice(0, 20)} format={(value) => told(metric, value)} />
        </Card>
      </div>
    </div>
  );
}

/** What projects used over time. */
export function Usage() {
  const t = useT();
  const [search, change] = useSearch();
  const step = search.get("step") === "hour" ? "hour" : "day";
  const metric = METRICS.find((each) => each === search.get("what")) ?? "pages";
  const found = useQuery({
    queryKey: ["usage", step],
    queryFn: () => call("get", "/api/v1/usage", { query: { step } }),
    refetchInterval: 15_000,
    placeholderData: (before) => before,
  });
  return (
    <>
      <div className="filters">
        <Segments
          label={t("usage.step")}
          value={step}
          options={[
            ["day", t("usage.day")],
            ["hour", t("usage.hour")],
          ]}
          onChange={(value) => change({ step: value === "day" ? null : value })}
        />
        <select
          className="select auto"
          aria-label={t("usage.what")}
          value={metric}
          onChange={(event) => change({ what: event.target.value })}
        >
          {METRICS.map((each) => (
            <option key={each} value={each}>
              {t(`usage.${each}`)}
            </option>
          ))}
        </select>
      </div>
      <Loaded of={found} rows={8}>
        {(report) =>
          report.items.length > 0 ? (
            <Report report={report} metric={metric} />
          ) : (
            <Card>
              <Empty icon="quotas" title={t("usage.emptyTitle")} command="crawlfleet quotas usage">
                {t("usage.emptyText")}
              </Empty>
            </Card>
          )
        }
      </Loaded>
    </>
  );
}
