/** Who looks at the page, and what they may do. The master decides; this only hides what would be
 * refused. */
import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from "react";
import { call, Problem, setCsrf, whenSignedOut } from "../api/client";
import { live } from "../api/live";
import { queryClient, renewByNews } from "../api/queries";
import type { SessionView } from "../generated/api";
import { navigate } from "../lib/router";
import { SignIn } from "../pages/SignIn";

export interface Visitor {
  session: SessionView;
  /** May order tasks and nodes about. */
  operates: boolean;
  administers: boolean;
  /** Sees the whole fleet, not one project alone. */
  seesFleet: boolean;
  signOut: () => void;
}

const Context = createContext<Visitor | null>(null);
type State =
  | { kind: "asking" }
  | { kind: "out"; why?: unknown }
  | { kind: "in"; session: SessionView };

/** Addresses for who is not in yet. */
const DOORS = new Set(["/sign-in", "/open"]);

/** The one-time link that `crawlfleet up` prints ends in `/open#TOKEN`. */
function linkToken(): string {
  return window.location.pathname === "/open" ? window.location.hash.slice(1) : "";
}

async function enter(link: string): Promise<SessionView> {
  if (!link) return call("get", "/api/v1/session");
  // Away from the address bar and the history before anything else is done with it.
  navigate("/", { replace: true });
  return call("post", "/api/v1/session", { body: { link } });
}

export function SessionProvider({ children }: { children: ReactNode }) {
  const [state, setState] = useState<State>({ kind: "asking" });

  const admit = useCallback((session: SessionView) => {
    setCsrf(session.csrf ?? "");
    if (DOORS.has(window.location.pathname)) navigate("/", { replace: true });
    setState({ kind: "in", session });
  }, []);

  useEffect(() => {
    whenSignedOut(() => setState({ kind: "out" }));
    const link = linkToken();
    enter(link).then(admit, (error: unknown) => {
      // Who comes without a link is simply not in yet; a link that is refused needs a word.
      const expected = !link && error instanceof Problem && error.status === 401;
      setState(expected ? { kind: "out" } : { kind: "out", why: error });
    });
  }, [admit]);

  const signedIn = state.kind === "in";
  useEffect(() => {
    if (!signedIn) return;
    const ends = [live.start(), renewByNews()];
    return () => {
      for (const end of ends) end();
      queryClient.clear();
    };
  }, [signedIn]);

  if (state.kind === "asking") return null;
  if (state.kind === "out") return <SignIn onDone={admit} refusal={state.why} />;
  const { session } = state;
  const visitor: Visitor = {
    session,
    operates: session.role === "operator" || session.role === "admin",
    administers: session.role === "admin",
    seesFleet: !session.projects?.length,
    signOut: () => {
      void call("delete", "/api/v1/session").finally(() => setState({ kind: "out" }));
    },
  };
  return <Context.Provider value={visitor}>{children}</Context.Provider>;
}

export function useVisitor(): Visitor {
  const visitor = useContext(Context);
  if (!visitor) throw new Error("nobody is signed in");
  return visitor;
}
