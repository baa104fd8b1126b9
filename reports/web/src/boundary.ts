// The boundary between cells that differ, along their edges, as one SVG path in grid units.
// Edges, not interpolated lines: nothing was simulated between the points, and the numbers in the cells stay readable.

export function boundary(key: (column: number, row: number) => unknown, columns: number, rows: number): string {
  let path = "";
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
    const here = key(column, row);
    if (column + 1 < columns && here !== key(column + 1, row)) path += `M${column + 1} ${row}v1`;
    if (row + 1 < rows && here !== key(column, row + 1)) path += `M${column} ${row + 1}h1`;
  }
  return path;
}
