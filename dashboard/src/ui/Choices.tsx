/** Language and theme. */
import { LANGUAGES, type Language, useWords } from "../i18n";
import { Button } from "./basics";
import { useTheme } from "./theme";

export function Choices() {
  const { language, choose, t } = useWords();
  const { theme, choose: chooseTheme } = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return (
    <div className="row">
      <select
        className="select grow"
        aria-label={t("common.language")}
        value={language}
        onChange={(event) => choose(event.target.value as Language)}
      >
        {Object.entries(LANGUAGES).map(([code, name]) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </select>
      <Button
        icon={other === "dark" ? "moon" : "sun"}
        aria-label={other === "dark" ? t("common.toDark") : t("common.toLight")}
        onClick={() => chooseTheme(other)}
      />
    </div>
  );
}
