/** Interceptors that say that they were called, and change nothing. */
import type { Interceptor, SubmitInterceptor } from "../../../../sdk/typescript/dist/index.js";
import { say } from "./protocol.js";

export const submitsSeen: SubmitInterceptor = async (submit, next) => {
  say("intercepted", { what: "submit", when: "before", key: submit.key });
  const result = await next(submit);
  say("intercepted", { what: "submit", when: "after", key: submit.key });
  return result;
};

export const handlersSeen: Interceptor = async (_context, { key }, next) => {
  say("intercepted", { what: "handler", when: "before", key });
  try {
    return await next();
  } finally {
    say("intercepted", { what: "handler", when: "after", key });
  }
};
