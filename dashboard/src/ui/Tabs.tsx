import { Link, usePlace, withSearch } from "../lib/router";

interface TabsProps {
  label: string;
  tabs: [string, string][];
  current: string;
}

/** Views of one thing; which of them is in the address. */
export function Tabs({ label, tabs, current }: TabsProps) {
  const { path, search } = usePlace();
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(([name, title], index) => (
        <Link
          key={name}
          to={`${path}${withSearch(search, { tab: index === 0 ? null : name })}`}
          aria-current={name === current ? "page" : undefined}
        >
          {title}
        </Link>
      ))}
    </nav>
  );
}
