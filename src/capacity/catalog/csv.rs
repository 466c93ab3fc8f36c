//! Just enough CSV for our own tables: a header line, quoted fields, doubled quotes.

/// A table with a header.
pub(crate) struct Table<'a> {
    header: Vec<String>,
    lines: Vec<&'a str>,
}

impl<'a> Table<'a> {
    /// Takes the text of a table. Our tables have no line breaks inside fields (a test holds that).
    pub(crate) fn read(text: &'a str) -> Self {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let header = lines.next().map(fields).unwrap_or_default();
        Self {
            header,
            lines: lines.collect(),
        }
    }

    /// The rows below the header.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.lines.iter().map(|line| Row {
            header: &self.header,
            fields: fields(line),
        })
    }
}

/// A row, asked by column name.
pub(crate) struct Row<'a> {
    header: &'a [String],
    fields: Vec<String>,
}

impl Row<'_> {
    /// A field; empty when the table lacks the column (a test holds that every column asked for is there).
    pub(crate) fn get(&self, column: &str) -> &str {
        let index = self.header.iter().position(|name| name == column);
        index
            .and_then(|index| self.fields.get(index))
            .map_or("", String::as_str)
    }

    /// How many fields the row has.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }
}

fn fields(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                field.push('"');
                letters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    out.push(field);
    out
}
