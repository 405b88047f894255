/** Pages of a list, one after the other, under one name. */
import { useInfiniteQuery } from "@tanstack/react-query";

interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export function usePages<T>(
  key: readonly unknown[],
  fetchPage: (cursor: string | null) => Promise<Page<T>>,
  refetchMs: number | false = false,
) {
  const found = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => fetchPage(pageParam),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: refetchMs,
  });
  return {
    ...found,
    data: found.data?.pages.flatMap((page) => page.items),
  };
}
