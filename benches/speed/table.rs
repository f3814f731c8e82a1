//! What is printed.

use std::fmt;
use std::time::Duration;

#[derive(Default)]
pub struct Table(Vec<Row>);

/// One target.
pub struct Row {
    cells: [String; 4],
    ratio: f64,
    target: f64,
    unit: &'static str,
}

impl Row {
    pub fn new(what: String, measured: String, than: String, other: String, ratio: f64, target: f64) -> Row {
        Row { cells: [what, measured, than, other], ratio, target, unit: "" }
    }

    /// The ratio is one of times a process.
    pub fn a_process(mut self) -> Row {
        self.unit = " a process";
        self
    }

    fn met(&self) -> bool {
        self.ratio <= self.target
    }
}

impl Table {
    pub fn push(&mut self, row: Row) {
        self.0.push(row);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn missed(&self) -> usize {
        self.0.iter().filter(|row| !row.met()).count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["command", "measured", "beside", "measured", "ratio", "target", ""].map(str::to_owned);
        let lines = self.0.iter().map(|row| {
            let [what, measured, than, other] = row.cells.clone();
            let ratio = if row.ratio.is_finite() { format!("{:.2}{}", row.ratio, row.unit) } else { "?".to_owned() };
            [what, measured, than, other, ratio, format!("≤ {:.2}", row.target), if row.met() { "met" } else { "MISSED" }.to_owned()]
        });
        let lines: Vec<[String; 7]> = std::iter::once(heads).chain(lines).collect();
        let widths: Vec<usize> = (0..7).map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)).collect();
        for line in &lines {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

pub fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

pub fn mib(mib: f64) -> String {
    format!("{mib:.1} MiB")
}
