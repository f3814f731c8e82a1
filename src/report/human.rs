//! A page on a screen: wrapped to its width, coloured if it may be.

use std::io::{self, Write};

use comfy_table::{Cell, ContentArrangement, Table, presets};
use owo_colors::OwoColorize;
use unicode_width::UnicodeWidthStr;

use super::page::{Block, Page, Span, Style, Text};

/// A screen narrower than this shows the rows of a table as short lists.
const NARROW: usize = 60;

/// Width and colour of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns; none = as wide as the text.
    pub width: Option<usize>,
    /// Whether escape sequences for colour may be written.
    pub colour: bool,
}

impl Screen {
    /// Writes a page.
    ///
    /// # Errors
    /// Whatever the writer says.
    pub fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()> {
        let last = page.0.iter().rposition(|block| *block != Block::Gap).map_or(0, |at| at + 1);
        for block in &page.0[..last] {
            match block {
                Block::Gap => writeln!(out)?,
                Block::Heading(text) => self.paragraph(text, 0, 2, Style::Strong, out)?,
                Block::Paragraph(text, first, rest) => self.paragraph(text, *first, *rest, Style::Plain, out)?,
                Block::Code(line, indent) => writeln!(out, "{:indent$}{}", "", self.paint(Style::Code, line))?,
                Block::Facts(facts, indent) => self.facts(facts, *indent, out)?,
                Block::Table { heads, rows, indent } => self.table(heads, rows, *indent, out)?,
            }
        }
        Ok(())
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        match style {
            Style::Plain => text.to_owned(),
            Style::Dim => text.dimmed().to_string(),
            Style::Strong => text.bold().to_string(),
            Style::Good => text.green().to_string(),
            Style::Warn => text.yellow().to_string(),
            Style::Bad => text.red().to_string(),
            Style::Code => text.cyan().to_string(),
        }
    }

    fn paragraph(&self, text: &Text, first: usize, rest: usize, base: Style, out: &mut dyn Write) -> io::Result<()> {
        for (number, line) in wrap(text, self.width, first, rest).iter().enumerate() {
            let indent = if number == 0 { first } else { rest };
            write!(out, "{:indent$}", "")?;
            for span in line {
                let style = if span.style == Style::Plain { base } else { span.style };
                write!(out, "{}", self.paint(style, &span.text))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn facts(&self, facts: &[(String, Text)], indent: usize, out: &mut dyn Write) -> io::Result<()> {
        let longest = facts.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        let column = if self.width.is_some_and(|width| width < NARROW) { 0 } else { longest };
        for (name, text) in facts {
            let line = Text::styled(Style::Dim, format!("{name:column$}  "));
            let line = Text(line.0.into_iter().chain(text.0.iter().cloned()).collect());
            let rest = if column == 0 { indent + 2 } else { indent + column + 2 };
            self.paragraph(&line, indent, rest, Style::Plain, out)?;
        }
        Ok(())
    }

    fn table(&self, heads: &[&'static str], rows: &[Vec<Text>], indent: usize, out: &mut dyn Write) -> io::Result<()> {
        if self.width.is_some_and(|width| width < NARROW) {
            return self.lists(heads, rows, indent, out);
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(heads.to_vec());
        match self.width {
            Some(width) => {
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_width(u16::try_from(width.saturating_sub(indent)).unwrap_or(u16::MAX));
            }
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        for row in rows {
            table.add_row(row.iter().map(|text| Cell::new(text.bare())));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for (number, line) in table.lines().enumerate() {
            let line = line.trim_end();
            let line = if number == 0 { self.paint(Style::Dim, line) } else { self.accent(line, rows) };
            writeln!(out, "{:indent$}{line}", "")?;
        }
        Ok(())
    }

    /// Colours the words of a laid-out line that are styled cells, so that the layout need not know of colour.
    fn accent(&self, line: &str, rows: &[Vec<Text>]) -> String {
        if !self.colour {
            return line.to_owned();
        }
        let mut words: Vec<&Span> = rows.iter().flatten().flat_map(|text| &text.0).filter(|span| span.style != Style::Plain).collect();
        words.sort_by(|a, b| (&a.text, a.style as u8).cmp(&(&b.text, b.style as u8)));
        words.dedup();
        let mut done = String::new();
        for piece in line.split_inclusive(' ') {
            let word = piece.trim_end_matches(' ');
            match words.iter().find(|span| span.text == word && !word.is_empty()) {
                Some(span) => {
                    done.push_str(&self.paint(span.style, word));
                    done.push_str(&piece[word.len()..]);
                }
                None => done.push_str(piece),
            }
        }
        done
    }

    fn lists(&self, heads: &[&'static str], rows: &[Vec<Text>], indent: usize, out: &mut dyn Write) -> io::Result<()> {
        for row in rows {
            for (number, (head, cell)) in heads.iter().zip(row).enumerate() {
                if cell.is_empty() {
                    continue;
                }
                let indent = if number == 0 { indent } else { indent + 2 };
                let line = if number == 0 { cell.clone() } else { labelled(head, cell) };
                self.paragraph(&line, indent, indent + 2, Style::Plain, out)?;
            }
        }
        Ok(())
    }
}

fn labelled(head: &str, cell: &Text) -> Text {
    let mut line = Text::styled(Style::Dim, format!("{}: ", head.to_lowercase()));
    line.0.extend(cell.0.iter().cloned());
    line
}

/// Breaks a text into lines of at most `width` columns, at spaces; a longer word is broken where it must be.
fn wrap(text: &Text, width: Option<usize>, first: usize, rest: usize) -> Vec<Vec<Span>> {
    let Some(width) = width else { return vec![text.0.clone()] };
    let mut lines: Vec<Vec<Span>> = vec![Vec::new()];
    let mut used = first;
    for span in &text.0 {
        for piece in span.text.split_inclusive(' ') {
            for part in fit(piece, width.saturating_sub(rest).max(8)) {
                let columns = part.trim_end().width();
                if used + columns > width && used > rest {
                    lines.push(Vec::new());
                    used = rest;
                }
                let Some(line) = lines.last_mut() else { continue };
                let part = if line.is_empty() && used == rest { part.trim_start() } else { part };
                used += part.width();
                match line.last_mut() {
                    Some(last) if last.style == span.style => last.text.push_str(part),
                    _ => line.push(Span { text: part.to_owned(), style: span.style }),
                }
            }
        }
    }
    for line in &mut lines {
        if let Some(last) = line.last_mut() {
            last.text.truncate(last.text.trim_end().len());
        }
    }
    lines
}

/// A word in parts that fit, whole unless it is wider than a line.
fn fit(word: &str, width: usize) -> Vec<&str> {
    if word.trim_end().width() <= width {
        return vec![word];
    }
    let mut parts = Vec::new();
    let (mut start, mut columns) = (0, 0);
    for (at, letter) in word.char_indices() {
        let wide = unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0);
        if columns + wide > width && at > start {
            parts.push(&word[start..at]);
            (start, columns) = (at, 0);
        }
        columns += wide;
    }
    parts.push(&word[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(page: &Page, width: Option<usize>) -> String {
        let mut out = Vec::new();
        Screen { width, colour: false }.write(page, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_line_is_wider_than_the_screen_but_a_line_to_paste() {
        let mut page = Page::new();
        page.heading("A heading that is longer than forty columns, as headings sometimes are");
        page.line(2, "words and /a/path/that/is/longer/than/the/whole/screen/and/has/no/space and 漢字も幅を持つ文字である");
        page.table(2, vec!["NAME", "VALUE"], vec![vec!["DISPLAY".into(), "localhost:10.0 (alive, of another login than this one)".into()]]);
        page.facts(2, vec![("born".to_owned(), "127.0.0.2 50000 127.0.0.1 22, on pts/3, in tmux".into())]);
        for width in [40, 80] {
            for line in shown(&page, Some(width)).lines() {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
        }
        page = Page::new();
        page.code(4, "export DISPLAY=localhost:11.0 SSH_AUTH_SOCK=/tmp/ssh-abc/agent.1");
        assert_eq!(shown(&page, Some(20)).lines().count(), 1);
    }

    #[test]
    fn a_screen_without_width_keeps_lines_whole() {
        let mut page = Page::new();
        page.line(0, "one two three");
        page.gap().gap();
        page.line(0, "four");
        page.gap();
        assert_eq!(shown(&page, None), "one two three\n\nfour\n");
    }

    #[test]
    fn colour_changes_no_letter() {
        let mut page = Page::new();
        page.line(0, Text::plain("state ").then(Style::Bad, "refused"));
        let mut out = Vec::new();
        Screen { width: Some(80), colour: true }.write(&page, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\u{1b}[31mrefused\u{1b}["), "{text:?}");
        assert_eq!(text.replace("\u{1b}[31m", "").replace("\u{1b}[39m", "").replace("\u{1b}[0m", ""), "state refused\n");
    }
}
