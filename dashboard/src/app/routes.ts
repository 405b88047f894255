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

/** Every view and its address; each is fetched when it is first opened. */
export const ROUTES: Route[] = [
  { path: "/", title: "nav.overview", view: lazy(() => import("../pages/overview")) },
  { path: "/nodes", title: "nav.nodes", view: lazy(() => import("../pages/nodes")) },
  { path: "/nodes/{id}", title: "nav.nodes", view: lazy(() => import("../pages/node")) },
  { path: "/tasks", title: "nav.tasks", view: lazy(() => import("../pages/tasks")) },
  { path: "/tasks/{id}", title: "nav.tasks", view: lazy(() => import("../pages/task")) },
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
];
