/** The words of the page. English is the source; every other language has each of its keys. */
import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from "react";
import { setFormatLocale } from "../lib/format";
import { keep, kept } from "../lib/keep";
import { en } from "./en";

export type Key = keyof typeof en;
export type Dictionary = Record<Key, string>;
export type Values = Record<string, string | number>;
export type Translate = (key: Key, values?: Values) => string;
export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

const others: Record<Exclude<Language, "en">, () => Promise<Dictionary>> = {
  "zh-CN": async () => (await import("./zh")).zh,
};

/** The text with its values put in; of `one|other` the one that fits the value `n`. */
export function fill(text: string, values: Values = {}): string {
  const [one = "", other] = text.split("|");
  const chosen = other === undefined || values.n === 1 || values.n === "1" ? one : other;
  return chosen.replace(/\{(\w+)\}/g, (whole, name: string) =>
    name in values ? String(values[name]) : whole,
  );
}

interface Words {
  language: Language;
  choose: (language: Language) => void;
  t: Translate;
}

const Context = createContext<Words | null>(null);

function preferred(): Language {
  const chosen = kept("language");
  if (chosen && chosen in LANGUAGES) return chosen as Language;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

export function WordsProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState<Language>(preferred);
  const [loaded, setLoaded] = useState<{ language: Language; words: Dictionary }>();

  useEffect(() => {
    let current = true;
    const load = language === "en" ? Promise.resolve<Dictionary>(en) : others[language]();
    void load.then((words) => {
      if (!current) return;
      document.documentElement.lang = language;
      setFormatLocale(language);
      setLoaded({ language, words });
    });
    return () => {
      current = false;
    };
  }, [language]);

  const choose = useCallback((next: Language) => {
    keep("language", next);
    setLanguage(next);
  }, []);
  const words = loaded?.words;
  const t = useCallback<Translate>(
    (key, values) => fill(words?.[key] ?? en[key] ?? key, values),
    [words],
  );
  if (!loaded) return null;
  return (
    <Context.Provider value={{ language: loaded.language, choose, t }}>{children}</Context.Provider>
  );
}

export function useWords(): Words {
  const words = useContext(Context);
  if (!words) throw new Error("outside of the words");
  return words;
}

export function useT(): Translate {
  return useWords().t;
}

/** A word of a family, such as a state, or what the master says where it is new to the page. */
export function useWord(): (family: string, name: string) => string {
  const { t } = useWords();
  return useCallback(
    (family, name) => {
      const key = `${family}.${name}`;
      return key in en ? t(key as Key) : name.replace(/_/g, " ");
    },
    [t],
  );
}
