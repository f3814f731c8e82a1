//! What a program is, by its own code: product, generation, features, the database schema that it knows.
//!
//! A verdict comes from strings of the table, each with the place where it was found; the version that the program carries
//! stands beside it and decides nothing.

use std::collections::BTreeMap;
use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bun;
use super::elf;
use super::fingerprints::{Strings, Table};
use super::lists::{self, NameList};
use super::migrations;
use super::pattern::{Encoding, encoded};
use super::product;
use super::read::ReadAt;
use super::regions::{self, Regions};
use super::scan::{Pass, Set, scan};

/// A string that was looked for, and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// The string.
    pub string: String,
    /// How often it is there, in the code, in either encoding.
    pub occurrences: u64,
    /// How it is written where it was found first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub encoding: Option<Encoding>,
    /// Where in the file it was found first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset: Option<u64>,
}

/// A feature, and what proves or disproves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Feature {
    /// Its id in the table.
    pub id: String,
    /// What it is.
    pub title: String,
    /// Whether the program has it.
    pub present: bool,
    /// The strings that decided.
    pub evidence: Vec<Seen>,
}

/// What a program is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identified {
    /// Id of the product.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub product: Option<String>,
    /// It is the product's front end, which is a program of its own.
    #[serde(default)]
    pub client: bool,
    /// Id of the generation; absent where no strings decide.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<String>,
    /// As a sentence names the generation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation_title: Option<String>,
    /// The strings that decided the generation.
    #[serde(default)]
    pub generation_evidence: Vec<Seen>,
    /// The version that the program carries, which decided nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version_string: Option<String>,
    /// The generation that such a version would belong to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version_generation: Option<String>,
    /// Every feature of the table that concerns the product.
    #[serde(default)]
    pub features: Vec<Feature>,
    /// Changes of the database schema that it knows, in order of time.
    #[serde(default)]
    pub migrations: Vec<String>,
    /// Lists of variables that it hands on from its own environment; ZeroClaw alone.
    #[serde(default)]
    pub safe_lists: Vec<NameList>,
    /// Why none of this is certain, where the file makes no sense.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub doubt: Option<String>,
}

impl Identified {
    /// Whether the program has this feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known.id == feature && known.present)
    }

    /// The version says another generation than the code: both, by id.
    pub fn disagrees(&self) -> Option<(&str, &str)> {
        let pair = (self.generation.as_deref()?, self.version_generation.as_deref()?);
        (pair.0 != pair.1).then_some(pair)
    }
}

/// In every list of what a shell gets from ZeroClaw's own environment, as seen on 0.8.7.
const SAFE: [&str; 3] = ["LC_CTYPE", "PATH", "HOME"];

/// What the program is.
///
/// # Errors
/// What the system says.
pub fn identify(file: &dyn ReadAt, table: &Table) -> io::Result<Identified> {
    let code = Regions::code(file)?;
    let doubt = (code.kind() == regions::Kind::Lost).then(|| regions::LOST.to_owned());
    let known = known(file)?;
    let wanted: Vec<&str> = match &known {
        Some((id, ..)) => strings_of(table, id),
        None => table.products.iter().flat_map(|product| product.strings.every()).map(String::as_str).collect(),
    };
    let mut seen = look(&code, &wanted)?;
    let there = |seen: &BTreeMap<String, Seen>, string: &str| seen.get(string).is_some_and(|seen| seen.occurrences > 0);
    let (id, client, version) = match known {
        Some(known) => known,
        None => {
            let fits = |product: &&super::fingerprints::Product| {
                product.strings.every().next().is_some() && product.strings.fit(|string| there(&seen, string))
            };
            let Some(found) = table.products.iter().find(fits) else {
                return Ok(Identified { doubt, ..Identified::default() });
            };
            seen = look(&code, &strings_of(table, &found.id))?;
            (found.id.clone(), false, None)
        }
    };
    let evidence = |strings: &Strings| strings.every().filter_map(|string| seen.get(string).cloned()).collect::<Vec<_>>();
    // A client's own program tells nothing of the daemon.
    let generation = table.generations.iter().find(|row| !client && row.product == id && row.strings.fit(|string| there(&seen, string)));
    let features = table.features.iter().filter(|row| row.product == id).map(|row| Feature {
        id: row.id.clone(),
        title: row.title.clone(),
        present: row.strings.fit(|string| there(&seen, string)),
        evidence: evidence(&row.strings),
    });
    let by_version = version.as_ref().filter(|_| !client).and_then(|version| table.by_version(&id, version));
    let safe_lists = if id == product::ZEROCLAW && !client { lists::holding(file, &SAFE)? } else { Vec::new() };
    Ok(Identified {
        doubt,
        safe_lists,
        client,
        generation: generation.map(|row| row.id.clone()),
        generation_title: generation.map(|row| row.title.clone()),
        generation_evidence: generation.map(|row| evidence(&row.strings)).unwrap_or_default(),
        version_generation: by_version.map(|row| row.id.clone()),
        features: if client { Vec::new() } else { features.collect() },
        migrations: migrations::of(&code)?,
        product: Some(id),
        version_string: version,
    })
}

/// Product and version by the few kilobytes that tell them.
fn known(file: &dyn ReadAt) -> io::Result<Option<(String, bool, Option<String>)>> {
    let sections = elf::sections(file)?.unwrap_or_default();
    let found = match (bun::payload(file, &sections)?, sections.rodata) {
        (Some(payload), _) => product::opencode(file, &payload)?,
        (None, Some(constants)) => product::zeroclaw(file, constants)?,
        (None, None) => None,
    };
    Ok(found.map(|product| (product.id.to_owned(), product.client, product.version)))
}

fn strings_of<'t>(table: &'t Table, product: &str) -> Vec<&'t str> {
    let generations = table.generations.iter().filter(|row| row.product == product).map(|row| &row.strings);
    let features = table.features.iter().filter(|row| row.product == product).map(|row| &row.strings);
    generations.chain(features).flat_map(Strings::every).map(String::as_str).collect()
}

/// Looks for strings in the code, in both encodings.
///
/// # Errors
/// What the system says.
pub fn look(code: &Regions<'_>, strings: &[&str]) -> io::Result<BTreeMap<String, Seen>> {
    let (mut needles, mut whose) = (Vec::new(), Vec::new());
    let mut seen = BTreeMap::new();
    for string in strings {
        let nothing = Seen { string: (*string).to_owned(), occurrences: 0, encoding: None, offset: None };
        if seen.insert((*string).to_owned(), nothing).is_none() {
            for (encoding, needle) in encoded(string.as_bytes()) {
                needles.push(needle);
                whose.push((*string, encoding));
            }
        }
    }
    let set = Set::new(needles).map_err(io::Error::other)?;
    let found = scan(code, &set, Pass { hash: false, offsets: 1, told: &|_| () })?;
    for ((string, encoding), count) in whose.into_iter().zip(found.counts) {
        let Some(seen) = seen.get_mut(string) else { continue };
        seen.occurrences += count.occurrences;
        if let (None, Some(at)) = (seen.offset, count.offsets.first()) {
            (seen.offset, seen.encoding) = (Some(code.place(*at)), Some(encoding));
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::bun::made_payload;
    use crate::binary::elf::made_elf;

    fn made(arguments: &str, sources: &[&str]) -> Vec<u8> {
        let mut file = made_elf(&[(".rodata", b"\"session.environment\" outside of the code")]);
        file.extend_from_slice(&made_payload(arguments, sources));
        file
    }

    #[test]
    fn the_code_decides_and_the_version_stands_beside() {
        let file = made("--user-agent=opencode/1.18.34 --", &["x", "d.put(\"session.environment\",\"/api/session/:id/environment\")"]);
        let found = identify(&file, &Table::built_in()).unwrap();
        assert_eq!((found.product.as_deref(), found.generation.as_deref()), (Some("opencode"), Some("v2")));
        assert_eq!(found.disagrees(), Some(("v2", "v1")));
        assert!(found.has("session_environment") && !found.has("inbox"));
        let seen = &found.generation_evidence[0];
        let at = seen.offset.unwrap() as usize;
        assert_eq!(&file[at..at + seen.string.len()], b"session.environment");
        assert_eq!(seen.occurrences, 1, "what stands outside of the code does not count");
    }

    #[test]
    fn a_sentence_that_names_an_operation_does_not_prove_it() {
        let said = "\"/config/providers\";\"/event\";\"changelog: removed session.environment from upload\"";
        let found = identify(&made("--user-agent=opencode/1.18.34 --", &[said]), &Table::built_in()).unwrap();
        assert_eq!((found.generation.as_deref(), found.disagrees()), (Some("v1"), None));
        assert!(!found.has("session_environment"));
    }

    #[test]
    fn a_version_alone_proves_nothing() {
        let found = identify(&made("--user-agent=opencode/2.0.24 --", &["nothing"]), &Table::built_in()).unwrap();
        assert_eq!((found.generation, found.version_generation.as_deref()), (None, Some("v2")));
        assert!(found.features.iter().all(|feature| !feature.present));
    }

    #[test]
    fn wide_strings_are_found_and_a_users_product_too() {
        let wide: Vec<u8> = "made by me".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let user = Table::parse("[[product]]\nid = \"mine\"\ntitle = \"Mine\"\nall = [\"made by me\"]\n").unwrap();
        let file = made_elf(&[(".rodata", &wide)]);
        let found = identify(&file, &Table::built_in().merged(user)).unwrap();
        assert_eq!(found.product.as_deref(), Some("mine"));
        assert_eq!(identify(&file, &Table::built_in()).unwrap(), Identified::default());
    }
}
