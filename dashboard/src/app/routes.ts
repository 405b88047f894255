import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import type { Key } from "../i18n";
import type { IconName } from "../ui/Icon";
import type { Visitor } from "./session";

type View = LazyExoticComponent<ComponentType>;

export interface Route {
  path: string;
  title: Key;
  view: View;
}

const settings = lazy(() => import("../pages/settings"));

/** Every view and its address; each is fetched when it is first opened. */
export const ROUTES: Route[] = [
  { path: "/", title: "nav.overview", view: lazy(() => import("../pages/overview")) },
  { path: "/nodes", title: "nav.nodes", view: lazy(() => import("../pages/nodes")) },
  { path: "/nodes/{id}", title: "nav.nodes", view: lazy(() => import("../pages/node")) },
  { path: "/tasks", title: "nav.tasks", view: lazy(() => import("../pages/tasks")) },
  { path: "/tasks/{id}", title: "nav.tasks", view: lazy(() => import("../pages/task")) },
  { path: "/crawls", title: "nav.crawls", view: lazy(() => import("../pages/crawls")) },
  { path: "/crawls/{id}", title: "nav.crawls", view: lazy(() => import("../pages/crawl")) },
  { path: "/schedules", title: "nav.schedules", view: lazy(() => import("../pages/schedules")) },
  {
    path: "/schedules/{id}",
    title: "nav.schedules",
    view: lazy(() => import("../pages/schedule")),
  },
  { path: "/bundles", title: "nav.bundles", view: lazy(() => import("../pages/bundles")) },
  {
    path: "/bundles/{project}/{name}",
    title: "nav.bundles",
    view: lazy(() => import("../pages/bundle")),
  },
  { path: "/workflows", title: "nav.workflows", view: lazy(() => import("../pages/workflows")) },
  {
    path: "/workflows/{id}",
    title: "nav.workflows",
    view: lazy(() => import("../pages/workflow")),
  },
  { path: "/runs/{id}", title: "nav.workflows", view: lazy(() => import("../pages/run")) },
  { path: "/quality", title: "nav.quality", view: lazy(() => import("../pages/quality")) },
  { path: "/quotas", title: "nav.quotas", view: lazy(() => import("../pages/quotas")) },
  { path: "/alerts", title: "nav.alerts", view: lazy(() => import("../pages/alerts")) },
  { path: "/webhooks", title: "nav.webhooks", view: lazy(() => import("../pages/webhooks")) },
  { path: "/webhooks/{id}", title: "nav.webhooks", view: lazy(() => import("../pages/webhook")) },
  { path: "/submit", title: "nav.submit", view: lazy(() => import("../pages/submit")) },
  { path: "/dead-letters", title: "nav.dead", view: lazy(() => import("../pages/deadLetters")) },
  { path: "/events", title: "nav.events", view: lazy(() => import("../pages/events")) },
  { path: "/settings", title: "nav.settings", view: settings },
  { path: "/settings/{section}", title: "nav.settings", view: settings },
];

export interface NavItem {
  to: string;
  title: Key;
  icon: IconName;
  shown?: (visitor: Visitor) => boolean;
}

export const NAV: NavItem[] = [
  { to: "/", title: "nav.overview", icon: "overview" },
  { to: "/nodes", title: "nav.nodes", icon: "nodes", shown: (visitor) => visitor.seesFleet },
  { to: "/tasks", title: "nav.tasks", icon: "tasks" },
  { to: "/crawls", title: "nav.crawls", icon: "crawls" },
  { to: "/schedules", title: "nav.schedules", icon: "schedules" },
  { to: "/workflows", title: "nav.workflows", icon: "workflows" },
  { to: "/bundles", title: "nav.bundles", icon: "bundles" },
  { to: "/submit", title: "nav.submit", icon: "submit", shown: (visitor) => visitor.operates },
  { to: "/dead-letters", title: "nav.dead", icon: "dead" },
  { to: "/quality", title: "nav.quality", icon: "quality" },
  { to: "/alerts", title: "nav.alerts", icon: "alerts" },
  { to: "/webhooks", title: "nav.webhooks", icon: "webhooks" },
  { to: "/quotas", title: "nav.quotas", icon: "quotas" },
  { to: "/events", title: "nav.events", icon: "events" },
  {
    to: "/settings",
    title: "nav.settings",
    icon: "settings",
    shown: (visitor) => visitor.seesFleet,
  },
];
