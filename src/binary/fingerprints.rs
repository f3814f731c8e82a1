//! The table of what strings prove: `fingerprints.toml`, and a user's rows merged into it by id.

use std::sync::OnceLock;

use serde::Deserialize;

/// The rows that come with the tool.
const BUILT_IN: &str = include_str!("fingerprints.toml");

/// Strings that decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Strings {
    /// Each of these is there.
    #[serde(default)]
    pub all: Vec<String>,
    /// At least one of these is there.
    #[serde(default)]
    pub any: Vec<String>,
    /// None of these is there.
    #[serde(default)]
    pub none: Vec<String>,
}

impl Strings {
    /// Every string, those that must not be there too.
    pub fn every(&self) -> impl Iterator<Item = &String> {
        self.all.iter().chain(&self.any).chain(&self.none)
    }

    /// Whether they fit, when `there` tells which are there.
    pub fn fit(&self, there: impl Fn(&str) -> bool) -> bool {
        self.all.iter().all(|string| there(string))
            && (self.any.is_empty() || self.any.iter().any(|string| there(string)))
            && !self.none.iter().any(|string| there(string))
    }

    fn decide(&self) -> bool {
        !self.all.is_empty() || !self.any.is_empty()
    }
}

/// A product.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Product {
    /// Its id.
    pub id: String,
    /// As a sentence names it.
    pub title: String,
    /// What makes a program one.
    #[serde(flatten)]
    pub strings: Strings,
}

/// A line of a product, where lines differ in what they do with environments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Generation {
    /// Its id, unique within the product.
    pub id: String,
    /// The product.
    pub product: String,
    /// As a sentence names it.
    pub title: String,
    /// What proves it.
    #[serde(flatten)]
    pub strings: Strings,
    /// How its versions begin.
    #[serde(default)]
    pub versions: Vec<String>,
}

/// Something that a program does or does not do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Feature {
    /// Its id, unique within the product.
    pub id: String,
    /// The product.
    pub product: String,
    /// What it is, as a sentence.
    pub title: String,
    /// What proves it.
    #[serde(flatten)]
    pub strings: Strings,
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Table {
    /// Products.
    #[serde(default, rename = "product")]
    pub products: Vec<Product>,
    /// Generations, in the order in which they are tried.
    #[serde(default, rename = "generation")]
    pub generations: Vec<Generation>,
    /// Features.
    #[serde(default, rename = "feature")]
    pub features: Vec<Feature>,
}

/// Why a file of fingerprints cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is no TOML, or a row has a wrong field.
    #[error("{0}")]
    Syntax(String),
    /// A row that proves nothing, or twice the same.
    #[error("{0}: {1}")]
    Row(String, String),
}

/// Products that are told by more than strings.
const TOLD: [&str; 2] = [super::product::OPENCODE, super::product::ZEROCLAW];

/// Refuses what no row has: a key that is misspelt would be a condition less.
fn no_others(document: &toml::Table) -> Result<(), TableError> {
    let common = ["id", "title", "all", "any", "none"];
    for (kind, rows) in document {
        let more: &[&str] = match kind.as_str() {
            "product" => &[],
            "generation" => &["product", "versions"],
            "feature" => &["product"],
            _ => return Err(TableError::Row(kind.clone(), "there are [[product]], [[generation]] and [[feature]]".to_owned())),
        };
        for row in rows.as_array().into_iter().flatten().filter_map(toml::Value::as_table) {
            if let Some(key) = row.keys().find(|key| !common.contains(&key.as_str()) && !more.contains(&key.as_str())) {
                let id = row.get("id").and_then(toml::Value::as_str).unwrap_or("without id");
                return Err(TableError::Row(format!("{kind} {id}"), format!("it has no key {key:?}")));
            }
        }
    }
    Ok(())
}

static IN_FORCE: OnceLock<Table> = OnceLock::new();

impl Table {
    /// The table that comes with the tool.
    pub fn built_in() -> Table {
        // A test reads it; a build whose table is broken does not pass.
        Table::parse(BUILT_IN).unwrap_or_default()
    }

    /// Reads a table.
    ///
    /// # Errors
    /// When it is none, or a row of it could prove nothing.
    pub fn parse(text: &str) -> Result<Table, TableError> {
        let syntax = |error: toml::de::Error| TableError::Syntax(error.to_string());
        no_others(&toml::from_str(text).map_err(syntax)?)?;
        let table: Table = toml::from_str(text).map_err(syntax)?;
        let mut seen = std::collections::HashSet::new();
        let mut sound = |kind: &'static str, product: &str, id: &str, strings: &Strings, told: bool| {
            let row = || if product == id { format!("product {id}") } else { format!("{kind} {product} {id}") };
            if !strings.decide() && !told {
                return Err(TableError::Row(row(), "a row needs `all` or `any`: what is absent alone proves nothing".to_owned()));
            }
            if strings.every().any(|string| string.is_empty() || string.contains('\n') || string.len() > 4096) {
                let why = "a string may not be empty, longer than 4096 bytes, or have a line break";
                return Err(TableError::Row(row(), why.to_owned()));
            }
            match seen.insert((kind, product.to_owned(), id.to_owned())) {
                true => Ok(()),
                false => Err(TableError::Row(row(), "it is listed twice".to_owned())),
            }
        };
        for row in &table.products {
            // The two that are told by more than strings need none.
            let told = TOLD.contains(&row.id.as_str()) && row.strings == Strings::default();
            sound("product", &row.id, &row.id, &row.strings, told)?;
        }
        for row in &table.generations {
            sound("generation", &row.product, &row.id, &row.strings, false)?;
        }
        for row in &table.features {
            sound("feature", &row.product, &row.id, &row.strings, false)?;
        }
        let of =
            table.generations.iter().map(|row| (&row.product, &row.id)).chain(table.features.iter().map(|row| (&row.product, &row.id)));
        for (product, id) in of {
            if !TOLD.contains(&product.as_str()) && !table.products.iter().any(|row| row.id == *product) {
                return Err(TableError::Row(format!("{product} {id}"), format!("there is no product {product:?}")));
            }
        }
        Ok(table)
    }

    /// With a user's rows: one with a known id takes its place, a new one comes first.
    #[must_use]
    pub fn merged(mut self, user: Table) -> Table {
        fn merge<T>(rows: &mut Vec<T>, user: Vec<T>, same: impl Fn(&T, &T) -> bool) {
            for row in user.into_iter().rev() {
                match rows.iter_mut().find(|known| same(known, &row)) {
                    Some(known) => *known = row,
                    None => rows.insert(0, row),
                }
            }
        }
        merge(&mut self.products, user.products, |a, b| a.id == b.id);
        merge(&mut self.generations, user.generations, |a, b| (&a.product, &a.id) == (&b.product, &b.id));
        merge(&mut self.features, user.features, |a, b| (&a.product, &a.id) == (&b.product, &b.id));
        self
    }

    /// Makes this the table of this run; the first one stays.
    pub fn put_in_force(self) {
        let _ = IN_FORCE.set(self);
    }

    /// The table of this run.
    pub fn in_force() -> &'static Table {
        IN_FORCE.get_or_init(Table::built_in)
    }

    /// Every string of the table, each once, in the order of the table.
    pub fn strings(&self) -> Vec<&str> {
        let sets = self.generations.iter().map(|row| &row.strings).chain(self.features.iter().map(|row| &row.strings));
        let mut strings: Vec<&str> = Vec::new();
        for string in sets.flat_map(Strings::every) {
            if !strings.contains(&string.as_str()) {
                strings.push(string);
            }
        }
        strings
    }

    /// The generation that versions like this one belong to, by the longest beginning.
    pub fn by_version(&self, product: &str, version: &str) -> Option<&Generation> {
        let length = |row: &&Generation| row.versions.iter().filter(|start| version.starts_with(*start)).map(String::len).max();
        self.generations.iter().filter(|row| row.product == product && length(row).is_some()).max_by_key(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_sound() {
        let table = Table::parse(BUILT_IN).unwrap();
        assert!(table.generations.len() >= 5 && table.features.len() > 20);
        for row in &table.generations {
            assert!(table.products.iter().any(|product| product.id == row.product), "{}", row.id);
        }
    }

    #[test]
    fn versions_belong_to_the_longest_beginning() {
        let table = Table::built_in();
        let of = |version| table.by_version("opencode", version).map(|row| row.id.as_str());
        assert_eq!(of("1.18.34"), Some("v1"));
        assert_eq!(of("0.0.0-next-16350"), Some("preview"));
        assert_eq!(of("0.15.31"), Some("v1"));
        assert_eq!(of("2.0.24"), Some("v2"));
        assert_eq!(of("local"), None);
    }

    #[test]
    fn a_users_row_takes_the_place_of_the_one_with_its_id() {
        let user = Table::parse(
            "[[feature]]\nid = \"inbox\"\nproduct = \"opencode\"\ntitle = \"mine\"\nany = [\"x\"]\n\
             [[product]]\nid = \"mine\"\ntitle = \"Mine\"\nall = [\"made by me\"]\n",
        );
        let (before, table) = (Table::built_in(), Table::built_in().merged(user.unwrap()));
        assert_eq!(table.features.len(), before.features.len());
        assert_eq!(table.features.iter().find(|row| row.id == "inbox").unwrap().title, "mine");
        assert_eq!(table.products[0].id, "mine");
    }

    #[test]
    fn rows_that_could_prove_nothing_are_refused() {
        let row = |rest: &str| Table::parse(&format!("[[feature]]\nid = \"x\"\nproduct = \"opencode\"\ntitle = \"z\"\n{rest}\n"));
        assert!(row("any = [\"a\"]").is_ok());
        assert!(matches!(row("none = [\"a\"]"), Err(TableError::Row(..))));
        assert!(matches!(row("any = [\"\"]"), Err(TableError::Row(..))));
        assert!(matches!(row("any = 3"), Err(TableError::Syntax(_))));
    }

    #[test]
    fn what_is_misspelt_or_leads_nowhere_is_refused_by_its_name() {
        let product = |rest: &str| format!("[[product]]\nid = \"zoo\"\ntitle = \"Zoo\"\n{rest}\n");
        let feature = |rest: &str| format!("[[feature]]\nid = \"hoof\"\ntitle = \"z\"\n{rest}\n");
        assert!(Table::parse(&(product("all = [\"a\"]") + &feature("product = \"zoo\"\nany = [\"b\"]"))).is_ok());
        for (text, said) in [
            (product(""), "product zoo"),
            (product("none = [\"a\"]"), "proves nothing"),
            (product("any = [\"\"]"), "may not be empty"),
            (product("any = [\"a\\nb\"]"), "line break"),
            (product("any = [\"a\"]").repeat(2), "listed twice"),
            (product("any = [\"a\"]\nanny = [\"b\"]"), "it has no key \"anny\""),
            (product("any = [\"a\"]\nversions = [\"1.\"]"), "it has no key \"versions\""),
            (feature("product = \"nobody\"\nany = [\"b\"]"), "there is no product \"nobody\""),
            ("[[features]]\nid = \"x\"\n".to_owned(), "features: there are"),
            ("[product]\nid = \"x\"\n".to_owned(), "invalid type"),
        ] {
            let error = Table::parse(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
