/** Small parts that every view is made of. */
import {
  type ButtonHTMLAttributes,
  type ReactNode,
  useId,
  useState,
  useSyncExternalStore,
} from "react";
import { Problem } from "../api/client";
import { useT } from "../i18n";
import { useRetelling } from "../i18n/retelling";
import { ago, clock, count, moment, percent, webAddress } from "../lib/format";
import { Link } from "../lib/router";
import { Icon, type IconName } from "./Icon";
import type { Tone } from "./State";
import { useToast } from "./Toasts";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: "primary" | "danger" | "plain" | "primary danger";
  size?: "small";
  icon?: IconName;
}

export function Button({ look, size, icon, children, className = "", ...rest }: ButtonProps) {
  const bare = icon && !children ? "square" : "";
  return (
    <button
      type="button"
      className={`button ${look ?? ""} ${size ?? ""} ${bare} ${className}`}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface CardProps {
  title?: ReactNode;
  aside?: ReactNode;
  flush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Card({ title, aside, flush, className = "", children }: CardProps) {
  const id = useId();
  return (
    <section className={`card ${className}`} aria-labelledby={title ? id : undefined}>
      {title && (
        <header className="card-head">
          <h2 id={id}>{title}</h2>
          {aside && <div className="aside">{aside}</div>}
        </header>
      )}
      <div className={`card-body ${flush ? "flush" : ""}`}>{children}</div>
    </section>
  );
}

export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head">
      {title}
      {children && <div className="actions">{children}</div>}
    </header>
  );
}

export function Crumbs({ to, parent }: { to: string; parent: string }) {
  return (
    <div className="crumbs">
      <Link to={to} className="row">
        <Icon name="back" /> {parent}
      </Link>
    </div>
  );
}

export function Chip({ tone, children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`chip ${tone ?? ""}`}>{children}</span>;
}

export function Skeleton({ height = 16, width = "100%" }: { height?: number; width?: string }) {
  return <span className="skeleton" style={{ height, width }} aria-hidden="true" />;
}

export function Skeletons({ rows = 5, height = 18 }: { rows?: number; height?: number }) {
  const t = useT();
  return (
    <div className="stack tight" role="status">
      <span className="hidden-text">{t("common.loading")}</span>
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={height} width={`${96 - ((index * 17) % 40)}%`} />
      ))}
    </div>
  );
}

/** What could be here, and how to get it. */
export function Empty(props: {
  icon: IconName;
  title: string;
  children?: ReactNode;
  command?: string;
}) {
  return (
    <div className="empty">
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.children && <div className="muted">{props.children}</div>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

export function Trouble({ error }: { error: unknown }) {
  const t = useT();
  const { problem } = useRetelling();
  const status = error instanceof Problem ? error.status : 0;
  const text =
    status === 403
      ? t("common.forbidden")
      : status === 0
        ? t("common.unreachable")
        : problem(error);
  return (
    <div className="notice bad" role="alert">
      <Icon name="warning" />
      <span className="breaks">{text}</span>
    </div>
  );
}

/** Waits with a skeleton, tells what went wrong, or shows what came. */
export function Loaded<T>(props: {
  of: { data: T | undefined; error: unknown };
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (props.of.data !== undefined) return props.children(props.of.data);
  if (props.of.error) return <Trouble error={props.of.error} />;
  return <Skeletons rows={props.rows ?? 5} />;
}

export function CopyButton({ text, label }: { text: string; label?: string }) {
  const t = useT();
  const toast = useToast();
  const [copied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    if (!(await toClipboard(text))) {
      toast({ tone: "bad", text: t("common.copyFailed") });
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  }
  return (
    <Button
      size="small"
      look="plain"
      icon={copied ? "check" : "copy"}
      onClick={() => void copy()}
      aria-label={label ?? t("common.copy")}
    >
      {copied ? t("common.copied") : t("common.copy")}
    </Button>
  );
}

async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Only pages under TLS or on this machine have a clipboard; the old way still works.
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

/** Text whose parts between backticks are code. */
export function Coded({ text }: { text: string }) {
  const parts = text.split("`");
  if (parts.length < 3 || parts.length % 2 === 0) return text;
  // One element: in a row of several each part would be a column.
  return (
    <span>{parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</span>
  );
}

/** One clock for all that show ages, however many rows there are. */
class Ticker {
  now = Date.now();
  private readonly watchers = new Set<() => void>();
  private timer: ReturnType<typeof setInterval> | null = null;
  private readonly everyMs: number;

  constructor(everyMs: number) {
    this.everyMs = everyMs;
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    this.timer ??= setInterval(() => this.tick(), this.everyMs);
    return () => {
      this.watchers.delete(watcher);
      if (this.watchers.size > 0 || this.timer === null) return;
      clearInterval(this.timer);
      this.timer = null;
    };
  };

  private tick(): void {
    if (document.hidden) return;
    this.now = Date.now();
    for (const watcher of this.watchers) watcher();
  }
}

const seconds = new Ticker(1000);
const moments = new Ticker(5000);

/** The time that passes, by the second. */
export function useNow(): number {
  return useSyncExternalStore(seconds.watch, () => seconds.now);
}

/** The time that passes, as often as ages are worth telling anew. */
export function useMoment(): number {
  return useSyncExternalStore(moments.watch, () => moments.now);
}

export function Ago({ at }: { at: string | null | undefined }) {
  const now = useMoment();
  if (!at) return <span className="muted">–</span>;
  return (
    <time dateTime={at} title={moment(at)} className="nowrap">
      {ago(at, now)}
    </time>
  );
}

export function Clock({ at }: { at: string }) {
  return (
    <time dateTime={at} title={moment(at)} className="nowrap">
      {clock(at)}
    </time>
  );
}

/** Text from outside; an address of the web becomes a link, anything else stays text. */
export function Outside({ text }: { text: string }) {
  const href = webAddress(text);
  if (!href) return <span className="breaks">{text}</span>;
  return (
    <a href={href} target="_blank" rel="noreferrer noopener" className="breaks">
      {text}
    </a>
  );
}

interface MeterProps {
  share: number;
  label: string;
  /** Whether full is a bad thing: memory that is full is, a processor that is busy is not. */
  alarming?: boolean;
}

export function Meter({ share, label, alarming }: MeterProps) {
  const tone = !alarming ? "" : share > 0.95 ? "bad" : share > 0.85 ? "warn" : "";
  const value = Math.round(Math.min(Math.max(share, 0), 1) * 100);
  return (
    <div className="meter">
      <div
        className="track"
        role="meter"
        aria-label={label}
        aria-valuenow={value}
        aria-valuemin={0}
        aria-valuemax={100}
      >
        <div className={`fill ${tone}`} style={{ width: `${value}%` }} />
      </div>
      <span className="small nowrap">{percent(share)}</span>
    </div>
  );
}

export type BarTone = "bad" | "warn" | undefined;

interface BarsProps {
  rows: [name: string, value: number, tone?: BarTone][];
  /** Of those that have none of their own. */
  tone?: BarTone;
  format?: (value: number) => string;
}

export function Bars({ rows, tone, format = count }: BarsProps) {
  const most = Math.max(1, ...rows.map(([, value]) => value));
  return (
    <ul className="bars">
      {rows.map(([name, value, own = tone]) => (
        <li className="bar" key={name}>
          <span className="cut" title={name}>
            {name}
          </span>
          <span className="track" aria-hidden="true">
            <span className={`fill ${own ?? ""}`} style={{ width: `${(100 * value) / most}%` }} />
          </span>
          <span>{format(value)}</span>
        </li>
      ))}
    </ul>
  );
}

export function Segments<T extends string>(props: {
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}) {
  return (
    <fieldset className="segments">
      <legend className="hidden-text">{props.label}</legend>
      {props.options.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}

export function Field(props: {
  label: string;
  hint?: ReactNode;
  wrong?: string | undefined;
  className?: string;
  children: (id: string, describedBy: string | undefined) => ReactNode;
}) {
  const id = useId();
  const note = props.wrong || props.hint ? `${id}-note` : undefined;
  return (
    <div className={`field ${props.className ?? ""}`}>
      <label htmlFor={id}>{props.label}</label>
      {props.children(id, note)}
      {props.wrong ? (
        <span className="wrong" id={note}>
          {props.wrong}
        </span>
      ) : (
        props.hint && (
          <span className="hint" id={note}>
            {props.hint}
          </span>
        )
      )}
    </div>
  );
}
