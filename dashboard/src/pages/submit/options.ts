import type { Schema } from "../../lib/schema";

const AMOUNT = { type: "number", minimum: 0 };

/** What can be said of any task, besides its parameters; each is a field of the API's request. */
export const OPTIONS: Schema = {
  type: "object",
  properties: {
    priority: { type: "integer", minimum: 1, maximum: 10, default: 5 },
    timeout: { type: "number", minimum: 0 },
    max_retries: { type: "integer", minimum: 0, maximum: 100, default: 3 },
    project_id: { type: "string", default: "default" },
    workflow_id: { type: "string" },
    dedup_key: { type: "string" },
    cluster_id: { type: "string", default: "default" },
    node_type: { type: "string" },
    schedule_strategy: {
      type: "string",
      // Those that come with the master; plug-ins may bring others.
      examples: [
        "least_loaded",
        "least_tasks",
        "round_robin",
        "weighted",
        "random",
        "geo_location",
        "content_based",
        "bin_pack",
      ],
    },
    target_region: { type: "string" },
    isolation: { type: "string", enum: ["L1", "L2", "L3", "L4"] },
    capabilities: { type: "object" },
    min_resources: {
      type: "object",
      properties: {
        cpu_cores: AMOUNT,
        memory_mb: AMOUNT,
        gpu: AMOUNT,
        bandwidth_mbps: AMOUNT,
        slots: AMOUNT,
      },
    },
  },
};
