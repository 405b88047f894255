import type { Schema } from "../../lib/schema";

/** What can be said of any task, besides its parameters; each is a field of the API's request. */
export const OPTIONS: Schema = {
  type: "object",
  properties: {
    priority: {
      type: "integer",
      minimum: 1,
      maximum: 10,
      default: 5,
      description: "10 is the most urgent",
    },
    project_id: { type: "string", default: "default", description: "Made on first use" },
    cluster_id: { type: "string", default: "default", description: "Whose nodes may do it" },
    timeout: { type: "number", minimum: 0, description: "Seconds that one attempt may take" },
    max_retries: { type: "integer", minimum: 0, maximum: 100, default: 3 },
    workflow_id: { type: "string", description: "What it belongs to, for you to filter by" },
    schedule_strategy: { type: "string", description: "How nodes that fit are ranked" },
    target_region: { type: "string", description: "For the strategy geo_location" },
    node_type: { type: "string", description: "Only nodes of this type" },
    dedup_key: { type: "string", description: "While such a task lives, no second one is made" },
    capabilities: { description: 'What the node must have, as JSON: {"javascript": true}' },
    min_resources: { description: 'What must be free there, as JSON: {"memory_mb": 500}' },
  },
};
