import { CopyButton } from "./basics";

const LONGEST = 200_000;

/** A value as text, and nothing but text. */
export function Json({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  return (
    <div className="stack tight">
      <pre className="code" tabIndex={0} role="group" aria-label={label}>
        {text.length > LONGEST ? `${text.slice(0, LONGEST)}\n…` : text}
      </pre>
      <div>
        <CopyButton text={text} />
      </div>
    </div>
  );
}
