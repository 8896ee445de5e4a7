/** This package's version, as servers see it in their logs. A test holds it against package.json. */
export const VERSION = "0.1.0";
