//! Counts of fixed strings, against counting by hand.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::binary::scan::{Pass, Set, scan};

fuzz_target!(|input: (Vec<Vec<u8>>, Vec<u8>, bool)| {
    let (needles, file, hash) = input;
    let Ok(set) = Set::new(needles.clone()) else { return };
    let found = scan(&file, &set, Pass { hash, offsets: 2, told: &|_| () }).expect("memory can be read");
    for (needle, count) in needles.iter().zip(found.counts) {
        let (mut lines, mut occurrences) = (0, 0);
        for line in file.split(|byte| *byte == b'\n') {
            let (mut at, before) = (0, occurrences);
            while at + needle.len() <= line.len() {
                let hit = line[at..].starts_with(needle);
                occurrences += u64::from(hit);
                at += if hit { needle.len() } else { 1 };
            }
            lines += u64::from(occurrences > before);
        }
        assert_eq!((count.lines, count.occurrences), (lines, occurrences), "{needle:?}");
    }
});
