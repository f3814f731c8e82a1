use super::*;

fn pass(hash: bool) -> Pass<'static> {
    Pass { hash, offsets: 4, told: &|_| () }
}

/// Counts as a person would: line by line, each string for itself, from left to right without overlaps.
fn by_hand(file: &[u8], needle: &[u8]) -> (u64, u64) {
    let (mut lines, mut occurrences) = (0, 0);
    for line in file.split(|byte| *byte == b'\n') {
        let (mut at, mut here) = (0, 0);
        while at + needle.len() <= line.len() {
            if line[at..].starts_with(needle) {
                here += 1;
                at += needle.len();
            } else {
                at += 1;
            }
        }
        occurrences += here;
        lines += u64::from(here > 0);
    }
    (lines, occurrences)
}

fn counted(file: &Vec<u8>, needles: &[&[u8]], hash: bool) -> Vec<(u64, u64)> {
    let set = Set::new(needles.iter().map(|needle| needle.to_vec()).collect()).unwrap();
    let scanned = scan(file, &set, pass(hash)).unwrap();
    assert_eq!(scanned.bytes, file.len() as u64);
    scanned.counts.iter().map(|count| (count.lines, count.occurrences)).collect()
}

#[test]
fn each_string_is_counted_for_itself() {
    let file = b"aaaa\nabab\nxaba\n\nab".to_vec();
    let needles: [&[u8]; 5] = [b"aa", b"aba", b"a", b"ab", b"xab"];
    // As `printf 'aaaa\nabab\nxaba\n\nab' | grep -acF` and `grep -aoF | wc -l` say.
    let expected = [(1, 2), (2, 2), (4, 9), (3, 4), (1, 1)];
    assert_eq!(counted(&file, &needles, false), expected);
    assert_eq!(counted(&file, &needles, true), expected);
}

#[test]
fn what_lies_across_blocks_and_units_is_counted_once() {
    let mut file = vec![b'.'; (UNIT as usize) * 2 + BLOCK + 17];
    for border in [BLOCK, UNIT as usize - 1, UNIT as usize, UNIT as usize * 2] {
        file[border - 3..border + 4].copy_from_slice(b"session");
    }
    let needles: [&[u8]; 3] = [b"session", b"ses", b"..........."];
    // Without a line break all of it is one line.
    for hash in [false, true] {
        let found = counted(&file, &needles, hash);
        assert_eq!(found[0], (1, 3), "the second of two that overlap by a byte is none");
        assert_eq!(found[2], by_hand(&file, needles[2]));
    }
    for breaks in [&[5usize][..], &[UNIT as usize - 5, UNIT as usize + 9], &[UNIT as usize - 1 - 3], &[BLOCK * 2, UNIT as usize * 2 + 40]] {
        let mut file = file.clone();
        breaks.iter().for_each(|at| file[*at] = b'\n');
        for hash in [false, true] {
            let found = counted(&file, &needles, hash);
            let expected: Vec<_> = needles.iter().map(|needle| by_hand(&file, needle)).collect();
            assert_eq!(found, expected, "{breaks:?}");
        }
    }
}

#[test]
fn offsets_are_the_first_ones_in_order() {
    let mut file = b"key=1\n".repeat(3 << 10);
    file.splice(0..3, *b"KEY");
    for hash in [false, true] {
        let set = Set::new(vec![b"key".to_vec()]).unwrap();
        let scanned = scan(&file, &set, pass(hash)).unwrap();
        assert_eq!(scanned.counts[0].offsets, [6, 12, 18, 24]);
        assert_eq!(scanned.counts[0].occurrences, (3 << 10) - 1);
    }
}

#[test]
fn the_hash_is_that_of_the_bytes() {
    // `printf abc | sha256sum`
    let set = Set::new(Vec::new()).unwrap();
    let hash = scan(&b"abc".to_vec(), &set, pass(true)).unwrap().sha256.unwrap();
    assert_eq!(hash[..4], [0xba, 0x78, 0x16, 0xbf]);
}

#[test]
fn strings_that_cannot_be_counted_are_refused() {
    assert_eq!(Set::new(vec![Vec::new()]).err(), Some(SetError::Empty));
    assert_eq!(Set::new(vec![b"a\nb".to_vec()]).err(), Some(SetError::LineBreak));
    assert!(matches!(Set::new(vec![vec![b'x'; LONGEST + 1]]).err(), Some(SetError::Large(_))));
}

#[test]
fn more_strings_than_one_search_takes_are_counted_too() {
    let file = (0..5000).flat_map(|number| format!("n{number}\n").into_bytes()).collect::<Vec<u8>>();
    let needles: Vec<Vec<u8>> = (0..400).map(|number| format!("n{number}").into_bytes()).collect();
    let set = Set::new(needles.clone()).unwrap();
    let scanned = scan(&file, &set, pass(false)).unwrap();
    for (needle, count) in needles.iter().zip(scanned.counts) {
        assert_eq!((count.lines, count.occurrences), by_hand(&file, needle));
    }
}

proptest::proptest! {
    #[test]
    fn counts_are_those_by_hand(
        file in proptest::collection::vec(proptest::sample::select(&b"ab\nc\0"[..]), 0..300),
        needles in proptest::collection::vec(proptest::collection::vec(proptest::sample::select(&b"abc\0"[..]), 1..5), 1..12),
        hash: bool,
    ) {
        let needles: Vec<&[u8]> = needles.iter().map(Vec::as_slice).collect();
        let expected: Vec<_> = needles.iter().map(|needle| by_hand(&file, needle)).collect();
        proptest::prop_assert_eq!(counted(&file, &needles, hash), expected);
    }
}
