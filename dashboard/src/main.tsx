import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { queryClient } from "./api/queries";
import { Shell } from "./app/Shell";
import { SessionProvider } from "./app/session";
import { WordsProvider } from "./i18n";
import "./styles/index.css";
import { ToastsProvider } from "./ui/Toasts";
import { applyTheme, ThemeProvider } from "./ui/theme";

applyTheme();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <ThemeProvider>
          <WordsProvider>
            <ToastsProvider>
              <SessionProvider>
                <Shell />
              </SessionProvider>
            </ToastsProvider>
          </WordsProvider>
        </ThemeProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
