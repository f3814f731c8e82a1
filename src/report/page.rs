//! What a person reads, before it has a width: headings, paragraphs, tables, findings.

use crate::redact::terminal::clean;

/// How a piece of text looks where there is colour. Without colour the words alone must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Style {
    /// As it is.
    #[default]
    Plain,
    /// Less important.
    Dim,
    /// A heading, a name to look for.
    Strong,
    /// Works.
    Good,
    /// Works, not as expected.
    Warn,
    /// Does not work.
    Bad,
    /// A line to paste.
    Code,
}

/// A run of text in one style. Bytes from the host that a terminal would act on are made visible here, so no
/// page can carry them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Its style.
    pub style: Style,
}

/// A line of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Span>);

impl Text {
    /// One run.
    pub fn styled(style: Style, text: impl AsRef<str>) -> Text {
        Text(vec![Span { text: clean(text.as_ref()), style }])
    }

    /// One plain run.
    pub fn plain(text: impl AsRef<str>) -> Text {
        Text::styled(Style::Plain, text)
    }

    /// Adds a run.
    #[must_use]
    pub fn then(mut self, style: Style, text: impl AsRef<str>) -> Text {
        self.0.push(Span { text: clean(text.as_ref()), style });
        self
    }

    /// The text without styles.
    pub fn bare(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| span.text.is_empty())
    }
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Text {
        Text::plain(text)
    }
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A line that starts a part.
    Heading(Text),
    /// Wrapped text; the first number indents its first line, the second all others.
    Paragraph(Text, usize, usize),
    /// A line to paste: never wrapped, so that it stays one line in the clipboard.
    Code(String, usize),
    /// Rows under column heads. On a narrow screen every row becomes a short list.
    Table {
        /// Column heads.
        heads: Vec<&'static str>,
        /// Rows, each as long as the heads.
        rows: Vec<Vec<Text>>,
        /// Indent of the whole.
        indent: usize,
    },
    /// Names and what they are, the names in a column.
    Facts(Vec<(String, Text)>, usize),
    /// An empty line, never two in a row.
    Gap,
}

/// What a person reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(pub Vec<Block>);

impl Page {
    /// An empty page.
    pub fn new() -> Page {
        Page::default()
    }

    /// Adds a heading after an empty line.
    pub fn heading(&mut self, text: impl Into<Text>) -> &mut Page {
        self.gap();
        self.0.push(Block::Heading(text.into()));
        self
    }

    /// Adds wrapped text.
    pub fn line(&mut self, indent: usize, text: impl Into<Text>) -> &mut Page {
        self.0.push(Block::Paragraph(text.into(), indent, indent));
        self
    }

    /// Adds wrapped text whose later lines hang.
    pub fn hanging(&mut self, first: usize, rest: usize, text: impl Into<Text>) -> &mut Page {
        self.0.push(Block::Paragraph(text.into(), first, rest));
        self
    }

    /// Adds a line to paste.
    pub fn code(&mut self, indent: usize, line: impl AsRef<str>) -> &mut Page {
        self.0.push(Block::Code(clean(line.as_ref()), indent));
        self
    }

    /// Adds a table, unless it has no rows.
    pub fn table(&mut self, indent: usize, heads: Vec<&'static str>, rows: Vec<Vec<Text>>) -> &mut Page {
        if !rows.is_empty() {
            self.0.push(Block::Table { heads, rows, indent });
        }
        self
    }

    /// Adds names and what they are, unless there are none.
    pub fn facts(&mut self, indent: usize, facts: Vec<(String, Text)>) -> &mut Page {
        if !facts.is_empty() {
            self.0.push(Block::Facts(facts, indent));
        }
        self
    }

    /// Shows every piece of text to `see`, which may change it.
    pub fn texts(&mut self, see: &mut dyn FnMut(&mut String)) {
        let mut spans = |text: &mut Text| text.0.iter_mut().for_each(|span| see(&mut span.text));
        for block in &mut self.0 {
            match block {
                Block::Gap => {}
                Block::Heading(text) | Block::Paragraph(text, ..) => spans(text),
                Block::Code(line, _) => {
                    let mut text = Text(vec![Span { text: std::mem::take(line), style: Style::Code }]);
                    spans(&mut text);
                    *line = text.bare();
                }
                Block::Table { rows, .. } => rows.iter_mut().flatten().for_each(&mut spans),
                Block::Facts(facts, _) => facts.iter_mut().for_each(|(_, text)| spans(text)),
            }
        }
    }

    /// Adds an empty line.
    pub fn gap(&mut self) -> &mut Page {
        if !matches!(self.0.last(), None | Some(Block::Gap)) {
            self.0.push(Block::Gap);
        }
        self
    }
}
