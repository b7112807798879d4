//! Plain text tables.

/// Rows of text under a heading, columns as wide as their widest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    #[must_use]
    pub fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(ToString::to_string).collect()],
        }
    }

    /// Adds a row; a row shorter than the heading leaves the rest empty.
    pub fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows
            .push(cells.into_iter().map(|cell| cell.to_string()).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &[String], column| row.get(column).map_or("", String::as_str).to_owned();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let widths = self
                    .rows
                    .iter()
                    .map(|row| cell(row, column).chars().count());
                widths.max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, &width) in widths.iter().enumerate() {
                let text = cell(row, column);
                // Figures stand to the right, words to the left.
                if text.starts_with(|first: char| first.is_ascii_digit()) {
                    line.push_str(&format!("{text:>width$}  "));
                } else {
                    line.push_str(&format!("{text:<width$}  "));
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell() {
        let mut table = Table::new(&["name", "count"]);
        table.row(["a long name", "7"]);
        table.row(["b"]);
        assert_eq!(
            table.to_string(),
            "name         count\na long name      7\nb\n"
        );
    }
}
