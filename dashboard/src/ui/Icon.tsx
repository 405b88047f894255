const PATHS = {
  overview: "M2.5 13.5v-4h3v4zM6.5 13.5v-7h3v7zM10.5 13.5v-11h3v11z",
  nodes: "M2.5 3.5h11v4h-11zM2.5 9.5h11v4h-11zM5 5.5h.01M5 11.5h.01",
  tasks: "M2.5 4l1.2 1.2L6 3M2.5 11l1.2 1.2L6 10M8.5 4.5h5M8.5 11.5h5",
  crawls:
    "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2M2.2 8h11.6M8 2.2c2 1.8 2.8 3.7 2.8 5.8S10 12 8 13.8C6 12 5.2 10.1 5.2 8S6 4 8 2.2",
  submit: "M8 3v10M3 8h10",
  dead: "M2.5 4.5h11v8h-11zM2.5 4.5l5.5 4.5 5.5-4.5",
  events: "M1.5 8h3l2-5 3 10 2-5h3",
  settings: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5h1.5M7.5 11.5h6M10.2 2.7v3.6M5.8 9.7v3.6",
  schedules: "M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.5V5M10.5 2.5V5M8 9v2l1.4.9",
  bundles: "M8 1.8l5.5 3v6.4L8 14.2l-5.5-3V4.8zM2.5 4.8L8 7.9l5.5-3.1M8 7.9v6.3",
  workflows: "M2.2 5.8h4v4.4h-4zM9.8 2.2h4v4h-4zM9.8 9.8h4v4h-4zM6.2 8h1.8M9.8 4.2H8v7.6h1.8",
  quotas: "M2.5 4h11M2.5 8h11M2.5 12h11M9.5 2.5v3M5.5 6.5v3M11.5 10.5v3",
  alerts: "M3 11.8h10M4.4 11.6V7.2a3.6 3.6 0 0 1 7.2 0v4.4M6.8 13.8h2.4",
  webhooks: "M2.5 8h6.5M6.3 5.2L9 8l-2.7 2.8M9 2.5h4.5v11H9",
  quality: "M2.5 13.5V9M6.2 13.5V4.5M9.8 13.5V7M13.5 13.5v-3M4.4 2.6l1.8-1 1.8 1",
  upload: "M8 10.8v-8M4.7 5.8L8 2.5l3.3 3.3M2.5 13.5h11",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4l3.1 3.1",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5l3.2 3.2L13 4.8",
  warning: "M8 2.5l6 10.8H2zM8 6.5v3M8 11.4v.1",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13 9.7A5.5 5.5 0 0 1 6.3 3a5.5 5.5 0 1 0 6.7 6.7",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  back: "M9.5 3.5L5 8l4.5 4.5",
  next: "M6.5 3.5L11 8l-4.5 4.5",
  down: "M3.5 6L8 10.5 12.5 6",
  leave: "M6.5 2.5h-4v11h4M6.5 8h7M10.7 5.2L13.5 8l-2.8 2.8",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6L12.5 8z",
  stop: "M4 4h8v8H4z",
  download: "M8 2.5v8M4.7 7.5L8 10.8l3.3-3.3M2.5 13.5h11",
  retry: "M13 3v3.5H9.5M12.7 6.5A5.2 5.2 0 1 0 13.2 9",
  language:
    "M2 4h7M5.5 2.5V4M7.8 4C7.2 7 5 9 2.5 10M3.5 4.2C4 6.5 6 8.5 8 9.5M8 13.5l3-7 3 7M9 11.5h4",
  key: "M5.5 7.5a3 3 0 1 0 0 .1M8.5 7.5h5v2M11.5 7.5v2",
  bolt: "M9 1.8L3.5 9H8l-1 5.2L12.5 7H8z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, label }: { name: IconName; label?: string }) {
  return label ? (
    <svg className="icon" viewBox="0 0 16 16" role="img" aria-label={label}>
      <path d={PATHS[name]} />
    </svg>
  ) : (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
