import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const master = process.env.CRAWLFLEET_URL ?? "http://127.0.0.1:8000";
const key = process.env.CRAWLFLEET_KEY;

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/crawlfleet/dashboard/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // everything by its address, so that the content policy stays strict
    cssCodeSplit: false,
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // Views that people go to and fro between come together: many small files pack badly.
        codeSplitting: {
          groups: [
            { name: "base", tags: ["$initial"], priority: 3 },
            { name: "chart", test: /[\\/](uplot|ui[\\/]Chart\.tsx)/, priority: 2 },
            {
              name: "parts",
              test: /[\\/]src[\\/](ui[\\/](?!graph|LogView)|lib[\\/])/,
              priority: 1,
            },
            {
              name: "work",
              test: /[\\/]src[\\/](ui[\\/]graph|pages[\\/](runs?|workflows?|schedules?|bundles?|submit))[\\/]/,
            },
            {
              name: "desk",
              test: /[\\/]src[\\/]pages[\\/](alerts|webhooks?|quotas|quality|settings|deadLetters|events)[\\/]/,
            },
            { name: "fleet", test: /[\\/]src[\\/]pages[\\/](tasks?|crawls?|nodes?)[\\/]/ },
          ],
        },
      },
    },
  },
  server: {
    // With a key in the environment the page is signed in by itself, as that key.
    proxy: {
      "/api": {
        target: master,
        changeOrigin: true,
        headers: { origin: master, ...(key ? { authorization: `Bearer ${key}` } : {}) },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
