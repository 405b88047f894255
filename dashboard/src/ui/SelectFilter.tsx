import { useT } from "../i18n";
import { useSearch } from "../lib/router";

interface SelectFilterProps {
  /** Its name in the address. */
  name: string;
  label: string;
  values: readonly string[];
  word?: (value: string) => string;
}

/** A filter that lives in the address, so that a link shows the same. */
export function SelectFilter({ name, label, values, word }: SelectFilterProps) {
  const t = useT();
  const [search, change] = useSearch();
  const value = search.get(name) ?? "";
  const options = value && !values.includes(value) ? [value, ...values] : values;
  return (
    <select
      className="select auto"
      aria-label={label}
      value={value}
      onChange={(event) => change({ [name]: event.target.value })}
    >
      <option value="">{t("common.any", { what: label })}</option>
      {options.map((each) => (
        <option key={each} value={each}>
          {word ? word(each) : each}
        </option>
      ))}
    </select>
  );
}
