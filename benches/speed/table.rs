//! What is printed.

use std::fmt;
use std::time::Duration;

#[derive(Default)]
pub struct Table(Vec<Row>);

/// One target.
pub struct Row {
    cells: [String; 6],
    met: bool,
}

impl Row {
    /// A time beside another: their ratio is judged.
    pub fn times(what: String, took: Duration, than: String, other: Duration, at_most: f64) -> Row {
        let ratio = took.as_secs_f64() / other.as_secs_f64();
        Row { cells: [what, ms(took), than, ms(other), format!("{ratio:.2}"), format!("≤ {at_most:.2}")], met: ratio <= at_most }
    }

    /// The same command on a larger machine: the ratio of times a process is judged.
    #[allow(dead_code, reason = "the two benches share this file")]
    pub fn growth(what: &str, many: (Duration, usize), few: (Duration, usize), at_most: f64) -> Row {
        let each = |(took, processes): (Duration, usize)| took.as_secs_f64() / processes as f64;
        let ratio = each(many) / each(few);
        let named = |(_, processes)| format!("{processes} processes");
        let cells = [
            format!("{what}, {}", named(many)),
            ms(many.0),
            format!("{}, a process", named(few)),
            ms(few.0),
            format!("{ratio:.2}"),
            format!("≤ {at_most:.2}"),
        ];
        Row { cells, met: ratio <= at_most }
    }

    /// A time by itself.
    #[allow(dead_code, reason = "the two benches share this file")]
    pub fn wall(what: String, took: Duration, at_most_ms: f64) -> Row {
        let met = took.as_secs_f64() * 1000.0 <= at_most_ms;
        Row { cells: [what, ms(took), "wall time".to_owned(), String::new(), String::new(), format!("≤ {at_most_ms:.0} ms")], met }
    }

    /// A size, or why it could not be measured, which counts as missed.
    pub fn size(what: String, which: &str, size: Result<f64, String>, at_most: f64) -> Row {
        let met = size.as_ref().is_ok_and(|size| *size <= at_most);
        let measured = size.map_or_else(|reason| reason, mib);
        Row { cells: [what, measured, which.to_owned(), String::new(), String::new(), format!("≤ {}", mib(at_most))], met }
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
        self.0.iter().filter(|row| !row.met).count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["command", "measured", "beside", "measured", "ratio", "target", ""].map(str::to_owned);
        let lines = self.0.iter().map(|row| {
            let [what, measured, than, other, ratio, target] = row.cells.clone();
            [what, measured, than, other, ratio, target, if row.met { "met" } else { "MISSED" }.to_owned()]
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

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

pub fn mib(mib: f64) -> String {
    format!("{mib:.1} MiB")
}
