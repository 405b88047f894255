/** A file that somebody chose, as the API takes it. */

export const MOST_BYTES = 10_000_000;
const ARCHIVE = /\.(zip|whl)$/i;

export type Unfit = "kind" | "size";

/** What keeps a file from being handed over, as far as can be told without opening it. */
export function unfit(file: { name: string; size: number }): Unfit | null {
  if (!ARCHIVE.test(file.name)) return "kind";
  return file.size > MOST_BYTES ? "size" : null;
}

/** The name that a file suggests for its bundle: of a wheel the package, of a zip the file. */
export function suggestedName(fileName: string): string {
  const stem = /\.whl$/i.test(fileName)
    ? (fileName.split("-")[0] ?? "")
    : fileName.replace(ARCHIVE, "");
  return stem
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+/, "")
    .slice(0, 64);
}

/** The content in base64. */
export function inBase64(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
