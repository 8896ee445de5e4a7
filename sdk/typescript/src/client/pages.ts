/** Lists that come in pages, read one item after another. */

/** How large the pages are that a list is read in. */
export interface PageOptions {
  /** At most this many at a time: 1 to 1,000. Default: 100. */
  readonly pageSize?: number;
}

/** One page, and where the next one begins; empty: there is none. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextPageToken: string;
}

/** Reads page after page as items are asked for. */
export async function* paged<T>(fetch: (pageToken: string) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let token = "";
  do {
    const page = await fetch(token);
    yield* page.items;
    token = page.nextPageToken;
  } while (token !== "");
}
