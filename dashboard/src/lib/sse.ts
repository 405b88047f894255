/** Reads server-sent events out of pieces of text, which may end anywhere. */

export interface Message {
  id: string;
  event: string;
  data: string;
}

export class MessageReader {
  /** The id to come back with after the connection broke. */
  lastId = "";
  private rest = "";
  private event = "";
  private data: string[] = [];

  push(piece: string): Message[] {
    const found: Message[] = [];
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") this.end(found);
      else this.take(line);
    }
    return found;
  }

  private end(found: Message[]): void {
    if (this.data.length > 0) {
      found.push({
        id: this.lastId,
        event: this.event || "message",
        data: this.data.join("\n"),
      });
    }
    this.event = "";
    this.data = [];
  }

  private take(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.event = value;
    else if (name === "id") this.lastId = value;
  }
}
