/** Everything by typing: views, nodes, a task by its id, language and theme. */
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { nodes } from "../api/queries";
import { LANGUAGES, type Language, useWords } from "../i18n";
import { matches } from "../lib/matching";
import { navigate } from "../lib/router";
import { Icon, type IconName } from "../ui/Icon";
import { useTheme } from "../ui/theme";
import { NAV } from "./routes";
import { useVisitor } from "./session";

interface Choice {
  name: string;
  group: string;
  icon: IconName;
  act: () => void;
}

const MOST = 40;

function useChoices(text: string): Choice[] {
  const { t, choose } = useWords();
  const { choose: chooseTheme } = useTheme();
  const visitor = useVisitor();
  const { data } = useQuery({ ...nodes, enabled: visitor.seesFleet, refetchInterval: false });
  return useMemo(() => {
    const typed = text.trim();
    const go = (to: string) => () => navigate(to);
    const choices: Choice[] = [];
    if (/^(task|exec)-[0-9a-z]{10,}$/.test(typed) && typed.startsWith("task-")) {
      const to = `/tasks/${encodeURIComponent(typed)}`;
      choices.push({ name: typed, group: t("palette.task"), icon: "tasks", act: go(to) });
    }
    if (/^run-[0-9a-z]{10,}$/.test(typed)) {
      const to = `/runs/${encodeURIComponent(typed)}`;
      choices.push({ name: typed, group: t("palette.run"), icon: "workflows", act: go(to) });
    }
    for (const item of NAV) {
      if (item.shown && !item.shown(visitor)) continue;
      const name = t(item.title);
      choices.push({ name, group: t("palette.page"), icon: item.icon, act: go(item.to) });
    }
    const lists: [string, string][] = [
      [t("palette.running"), "/tasks?status=processing"],
      [t("palette.waiting"), "/tasks?status=pending"],
      [t("palette.failed"), "/tasks?status=failed%2Ctimeout"],
    ];
    for (const [name, to] of lists) {
      choices.push({ name, group: t("nav.tasks"), icon: "tasks", act: go(to) });
    }
    if (visitor.administers) {
      for (const section of ["keys", "join-tokens", "clusters", "projects"] as const) {
        const name = t(`settings.${section}`);
        const to = `/settings/${section}`;
        choices.push({ name, group: t("nav.settings"), icon: "settings", act: go(to) });
      }
    }
    for (const node of data?.items ?? []) {
      const to = `/nodes/${encodeURIComponent(node.id)}`;
      choices.push({ name: node.name, group: t("palette.node"), icon: "nodes", act: go(to) });
    }
    for (const [code, name] of Object.entries(LANGUAGES)) {
      const act = () => choose(code as Language);
      choices.push({ name, group: t("common.language"), icon: "language", act });
    }
    const dark = () => chooseTheme("dark");
    const light = () => chooseTheme("light");
    choices.push({ name: t("common.toDark"), group: t("palette.look"), icon: "moon", act: dark });
    choices.push({ name: t("common.toLight"), group: t("palette.look"), icon: "sun", act: light });
    choices.push({
      name: t("nav.signOut"),
      group: visitor.session.name,
      icon: "leave",
      act: visitor.signOut,
    });
    return choices.filter((each) => matches(typed, `${each.name} ${each.group}`)).slice(0, MOST);
  }, [text, t, choose, chooseTheme, visitor, data]);
}

export function Palette({ onClose }: { onClose: () => void }) {
  const { t } = useWords();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [text, setText] = useState("");
  const [current, setCurrent] = useState(0);
  const choices = useChoices(text);

  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  useEffect(() => {
    list.current?.children[current]?.scrollIntoView({ block: "nearest" });
  }, [current]);

  function choose(choice: Choice | undefined): void {
    if (!choice) return;
    onClose();
    choice.act();
  }
  function press(event: KeyboardEvent): void {
    const last = choices.length - 1;
    if (event.key === "ArrowDown") setCurrent(current >= last ? 0 : current + 1);
    else if (event.key === "ArrowUp") setCurrent(current <= 0 ? last : current - 1);
    else if (event.key === "Enter") choose(choices[current]);
    else return;
    event.preventDefault();
  }

  return (
    <dialog
      ref={dialog}
      className="dialog palette"
      aria-label={t("palette.title")}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
      onKeyDown={press}
    >
      <input
        className="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={choices.length ? `${id}-${current}` : undefined}
        aria-label={t("palette.title")}
        placeholder={t("palette.placeholder")}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCurrent(0);
        }}
      />
      <div
        className="palette-list"
        id={id}
        role="listbox"
        aria-label={t("palette.title")}
        ref={list}
      >
        {choices.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input has the keys
          <div
            key={`${choice.group} ${choice.name}`}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === current}
            onClick={() => choose(choice)}
            onMouseMove={() => setCurrent(index)}
          >
            <Icon name={choice.icon} />
            <span className="cut">{choice.name}</span>
            <span className="group">{choice.group}</span>
          </div>
        ))}
      </div>
      {choices.length === 0 && <p className="dialog-body muted">{t("palette.nothing")}</p>}
    </dialog>
  );
}
