//! Keys of plugin storage.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::store::kv::{Key, Scope, raw_key};

fuzz_target!(|raw: &[u8]| {
    let key = Key::parse(raw);
    let _ = key.is_scoped();
    // What is decoded is what would be encoded.
    if let (Scope::Plugin, Some(plugin), Ok(text)) = (key.scope, &key.plugin, std::str::from_utf8(key.key)) {
        assert_eq!(raw_key(plugin, text).as_bytes(), raw);
    }
});
