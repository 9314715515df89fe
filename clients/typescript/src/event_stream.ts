/** A server-sent event (WHATWG HTML, 9.2). */
export interface Frame {
  event: string;
  data: string;
  id: string;
}

/** Yield the events of a stream as they come; comments, which only show that the connection lives, have none. */
export async function* frames(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<Frame> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // what has no blank line behind it was cut off, and comes again
      alive();
      const pieces = (rest + value).replace(/\r\n|\r(?!$)/g, "\n").split("\n\n");
      rest = pieces.pop() ?? "";
      for (const piece of pieces) {
        const frame = read(piece);
        if (frame.data !== "") yield frame;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function read(piece: string): Frame {
  const frame: Frame = { event: "message", data: "", id: "" };
  const data: string[] = [];
  for (const line of piece.split("\n")) {
    const [, name = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") frame[name] = value;
  }
  frame.data = data.join("\n");
  return frame;
}
