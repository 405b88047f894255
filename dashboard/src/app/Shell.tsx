import { useQuery } from "@tanstack/react-query";
import { Component, type ReactNode, Suspense, useEffect, useState } from "react";
import { useConnection } from "../api/live";
import { status } from "../api/queries";
import { useT } from "../i18n";
import icon from "../icon.svg";
import { Link, matchPath, usePlace } from "../lib/router";
import { Button, Skeletons, Trouble } from "../ui/basics";
import { Choices } from "../ui/Choices";
import { Icon } from "../ui/Icon";
import { Palette } from "./Palette";
import { NAV, ROUTES } from "./routes";
import { useVisitor } from "./session";

function isCurrent(to: string, path: string): boolean {
  if (to === "/workflows" && path.startsWith("/runs/")) return true;
  return to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`);
}

function NavLinks({ short }: { short?: boolean }) {
  const t = useT();
  const visitor = useVisitor();
  const { path } = usePlace();
  const items = NAV.filter((item) => item.shown?.(visitor) ?? true);
  return (short ? items.filter((item) => item.icon !== "submit").slice(0, 4) : items).map(
    (item) => (
      <Link key={item.to} to={item.to} aria-current={isCurrent(item.to, path) ? "page" : undefined}>
        <Icon name={item.icon} />
        {t(item.title)}
      </Link>
    ),
  );
}

function ConnectionState() {
  const t = useT();
  const connection = useConnection();
  const shown = connection === "off" ? "connecting" : connection;
  return (
    <span className={`connection ${shown}`} role="status">
      {t(`connection.${shown}`)}
    </span>
  );
}

function Side({ open }: { open: boolean }) {
  const t = useT();
  const { session, signOut } = useVisitor();
  const { data } = useQuery(status);
  return (
    <aside className={`side ${open ? "open" : ""}`}>
      <Link to="/" className="brand">
        <img src={icon} alt="" /> crawlfleet
      </Link>
      <nav className="nav" aria-label={t("nav.main")}>
        <NavLinks />
      </nav>
      <div className="side-foot">
        <Choices />
        <div className="row between">
          <span className="cut" title={session.name}>
            <span className="strong">{session.name}</span>{" "}
            {session.role !== session.name && <span className="muted">{session.role}</span>}
          </span>
          <Button
            size="small"
            look="plain"
            icon="leave"
            aria-label={t("nav.signOut")}
            title={t("nav.signOut")}
            onClick={signOut}
          />
        </div>
        <span className="muted">
          {data ? `${data.version} · ${data.leader ? t("nav.leads") : t("nav.follows")}` : " "}
        </span>
      </div>
    </aside>
  );
}

/** Keeps a view that breaks from taking the page with it. */
class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    return this.state.error ? <Trouble error={this.state.error} /> : this.props.children;
  }
}

function View() {
  const t = useT();
  const { path } = usePlace();
  const route = ROUTES.find((each) => matchPath(each.path, path));
  useEffect(() => {
    document.title = route ? `${t(route.title)} · crawlfleet` : "crawlfleet";
  }, [route, t]);
  if (!route) {
    return (
      <div className="stack">
        <h1>{t("common.noSuchPage")}</h1>
        <p>
          <Link to="/">{t("common.toOverview")}</Link>
        </p>
      </div>
    );
  }
  const Shown = route.view;
  return (
    <Guard key={path}>
      <Suspense fallback={<Skeletons rows={8} />}>
        <Shown />
      </Suspense>
    </Guard>
  );
}

export function Shell() {
  const t = useT();
  const { path } = usePlace();
  const [menu, setMenu] = useState(false);
  const [palette, setPalette] = useState(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the menu
  useEffect(() => setMenu(false), [path]);
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPalette((open) => !open);
      }
      if (event.key === "Escape") setMenu(false);
    }
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  return (
    <div className="shell">
      <a className="skip" href="#main">
        {t("nav.skip")}
      </a>
      <Side open={menu} />
      {menu && (
        <button
          type="button"
          className="veil"
          aria-label={t("common.close")}
          onClick={() => setMenu(false)}
        />
      )}
      <div>
        <header className="top">
          <button type="button" className="search-button" onClick={() => setPalette(true)}>
            <Icon name="search" />
            {t("palette.open")}
            <kbd>Ctrl K</kbd>
          </button>
          <span className="grow wide" />
          <ConnectionState />
        </header>
        <main className="main" id="main" tabIndex={-1}>
          <View />
        </main>
      </div>
      <nav className="bottom-nav" aria-label={t("nav.short")}>
        <NavLinks short />
        <button type="button" aria-expanded={menu} onClick={() => setMenu(true)}>
          <Icon name="menu" />
          {t("nav.more")}
        </button>
      </nav>
      {palette && <Palette onClose={() => setPalette(false)} />}
    </div>
  );
}
