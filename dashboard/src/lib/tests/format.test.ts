import { describe, expect, it } from "vitest";
import {
  ago,
  bytes,
  count,
  percent,
  setFormatLocale,
  short,
  shortId,
  span,
  webAddress,
} from "../format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [7, "7"],
    [0.934, "0.93"],
    [12.34, "12.3"],
    [345.6, "346"],
    [9999, "9,999"],
    [12_345, "12.3K"],
    [1_234_567, "1.2M"],
  ])("%d is short as %s", (value, text) => expect(short(value)).toBe(text));

  it("has separators in counts, and whole percents", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(percent(0.256)).toBe("26%");
  });

  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1 kB"],
    [1_234_000, "1.23 MB"],
    [24_105_000_000, "24.1 GB"],
  ])("%d bytes are %s", (value, text) => expect(bytes(value)).toBe(text));
});

describe("time", () => {
  it.each([
    [0, "0 ms"],
    [0.0004, "0 ms"],
    [0.82, "820 ms"],
    [0.9996, "1 s"],
    [4.23, "4.2 s"],
    [59.96, "1 m 00 s"],
    [185, "3 m 05 s"],
    [3599.7, "1 h 00 m"],
    [7800, "2 h 10 m"],
    [360_000, "4 d 4 h"],
    [-5, "-5 s"],
    [Number.NaN, "–"],
  ])("%d s are %s", (seconds, text) => expect(span(seconds)).toBe(text));

  it("are said in Chinese", () => {
    setFormatLocale("zh-CN");
    expect([0.82, 4.2, 185, 7800, 360_000].map(span)).toEqual([
      "820 毫秒",
      "4.2 秒",
      "3 分 05 秒",
      "2 小时 10 分",
      "4 天 4 小时",
    ]);
    setFormatLocale("en");
  });

  it("tells how long ago something was", () => {
    const now = Date.parse("2026-11-15T12:00:00Z");
    expect(ago("2026-11-15T11:57:00Z", now)).toBe("3 min. ago");
    expect(ago("2026-11-15T12:00:00Z", now)).toBe("now");
    expect(ago("2026-11-15T14:00:00Z", now)).toBe("in 2 hr.");
  });
});

describe("text from outside", () => {
  it("shortens ids to what tells them apart", () => {
    expect(shortId("task-1m7f8kvnx0ph9v69ycjkfks14")).toBe("task…kfks14");
    expect(shortId("default")).toBe("default");
  });

  it.each([
    "javascript:alert(1)",
    " javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "//example.com/",
    "/etc/passwd",
    "http:",
    "file:///etc/passwd",
    "https://",
    "",
    null,
    42,
  ])("%s is not linked", (text) => expect(webAddress(text)).toBeNull());

  it("links addresses of the web, with what is odd in them encoded", () => {
    expect(webAddress("https://example.com/a")).toBe("https://example.com/a");
    expect(webAddress('HTTP://example.com/"onclick="x')).toBe("http://example.com/%22onclick=%22x");
  });
});
