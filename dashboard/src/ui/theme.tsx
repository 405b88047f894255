import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import { keep, kept } from "../lib/keep";

export type Theme = "light" | "dark";
interface Choice {
  theme: Theme;
  choose: (theme: Theme) => void;
}
const Context = createContext<Choice>({ theme: "light", choose: () => {} });
const DARK = "(prefers-color-scheme: dark)";

function chosen(): Theme | null {
  const theme = kept("theme");
  return theme === "light" || theme === "dark" ? theme : null;
}

/** Before anything is drawn: what was chosen, or what the system likes. */
export function applyTheme(
  theme: Theme = chosen() ?? (matchMedia(DARK).matches ? "dark" : "light"),
) {
  document.documentElement.dataset.theme = theme;
  return theme;
}

export function ThemeProvider({ children }: { children: ReactNode }) {
  const [theme, setTheme] = useState<Theme>(() => applyTheme());
  useEffect(() => {
    const system = matchMedia(DARK);
    const follow = () => {
      if (!chosen()) setTheme(applyTheme());
    };
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, []);
  function choose(next: Theme): void {
    keep("theme", next);
    setTheme(applyTheme(next));
  }
  return <Context.Provider value={{ theme, choose }}>{children}</Context.Provider>;
}

export function useTheme(): Choice {
  return useContext(Context);
}
