use super::super::file::tests::voice;
use super::*;

const LIMITS: StoreLimits = StoreLimits {
    voices: 3,
    voices_per_key: 3,
    bytes: 1 << 20,
};

fn owner(digit: char) -> Owner {
    Owner::parse(&String::from_iter([digit; 32])).unwrap()
}

fn names(store: &VoiceStore, owner: &Owner) -> Vec<String> {
    store
        .list(owner)
        .iter()
        .map(|voice| voice.name.to_string())
        .collect()
}

#[test]
fn voices_outlast_the_store_and_keep_their_owners() {
    let dir = tempfile::tempdir().unwrap();
    let a = owner('a');
    let b = owner('b');
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    store.put(voice("Anna", &a)).unwrap();
    store.put(voice("anna", &b)).unwrap();
    store.put(voice("Otto", &Owner::shared())).unwrap();
    let held = store.held();
    drop(store);
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    assert_eq!(store.held(), held);
    assert_eq!(*store.find(&a, "ANNA").unwrap(), voice("Anna", &a));
    assert_eq!(names(&store, &a), ["Anna", "Otto"]);
    assert_eq!(names(&store, &b), ["anna", "Otto"]);
    assert_eq!(names(&store, &Owner::shared()), ["Otto"]);
}

#[test]
fn another_owner_neither_finds_nor_deletes_a_voice() {
    let dir = tempfile::tempdir().unwrap();
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    let a = owner('a');
    let b = owner('b');
    store.put(voice("Anna", &a)).unwrap();
    store.put(voice("Otto", &Owner::shared())).unwrap();
    assert!(store.find(&b, "Anna").is_none());
    assert!(matches!(
        store.remove(&b, "Anna"),
        Err(VoiceError::NotFound { .. })
    ));
    assert!(matches!(
        store.remove(&b, "Otto"),
        Err(VoiceError::SharedByAll { .. })
    ));
    store.remove(&a, "anna").unwrap();
    assert!(store.find(&a, "Anna").is_none());
    drop(store);
    assert_eq!(VoiceStore::open(dir.path(), LIMITS).unwrap().held().voices, 1);
}

#[test]
fn number_and_bytes_are_bounded_and_names_are_taken_once() {
    let store = VoiceStore::in_memory(LIMITS);
    let a = owner('a');
    for name in ["1", "2", "3"] {
        store.put(voice(name, &a)).unwrap();
    }
    assert!(matches!(
        store.put(voice("2", &a)),
        Err(VoiceError::Exists { .. })
    ));
    let full = store.put(voice("4", &a)).unwrap_err();
    assert!(
        matches!(
            full,
            VoiceError::Full {
                held: 3,
                limit: 3,
                unit: "voices"
            }
        ),
        "{full}"
    );
    store.remove(&a, "1").unwrap();
    store.put(voice("4", &a)).unwrap();
    let tight = StoreLimits { bytes: 100, ..LIMITS };
    let full = VoiceStore::in_memory(tight).put(voice("1", &a)).unwrap_err();
    assert!(
        matches!(
            full,
            VoiceError::Full {
                unit: "bytes of voices",
                ..
            }
        ),
        "{full}"
    );
}

#[test]
fn a_key_does_not_fill_the_store_for_others() {
    let limits = StoreLimits {
        voices_per_key: 1,
        ..LIMITS
    };
    let store = VoiceStore::in_memory(limits);
    let a = owner('a');
    let b = owner('b');
    let shared = Owner::shared();
    store.put(voice("1", &a)).unwrap();
    let full = store.put(voice("2", &a)).unwrap_err();
    assert!(
        full.to_string()
            .starts_with("1 of at most 1 voices of this API key are kept"),
        "{full}"
    );
    store.put(voice("1", &b)).unwrap();
    store.put(voice("1", &shared)).unwrap();
    let full = store.put(voice("2", &shared)).unwrap_err();
    assert!(
        full.to_string().starts_with("3 of at most 3 voices are kept"),
        "{full}"
    );
}

#[test]
fn damaged_files_are_skipped_and_half_written_ones_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    store.put(voice("Anna", &Owner::shared())).unwrap();
    store.put(voice("Otto", &Owner::shared())).unwrap();
    let path = store
        .held
        .read()
        .voices
        .values()
        .next()
        .unwrap()
        .path
        .clone()
        .unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let half = dir.path().join("x.partial");
    fs::write(&half, "x").unwrap();
    drop(store);
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    assert_eq!(names(&store, &Owner::shared()), ["Otto"]);
    assert!(!half.exists());
}

#[test]
fn a_file_that_was_not_read_is_not_replaced_and_a_folder_is_one_servers() {
    let dir = tempfile::tempdir().unwrap();
    let anna = voice("Anna", &Owner::shared());
    let place = dir.path().join(file_name(&anna));
    fs::write(&place, "of a later version").unwrap();
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    assert!(matches!(store.put(anna), Err(VoiceError::Store(_))));
    assert_eq!(fs::read(&place).unwrap(), b"of a later version");
    assert!(VoiceStore::open(dir.path(), LIMITS).is_err(), "another server");
    drop(store);
    assert!(VoiceStore::open(dir.path(), LIMITS).is_ok());
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = VoiceStore::open(dir.path(), LIMITS).unwrap();
    let anna = voice("Anna", &Owner::shared());
    // Blocks the file that is written first.
    let partial = dir.path().join(file_name(&anna)).with_extension(PARTIAL);
    fs::create_dir(&partial).unwrap();
    assert!(matches!(store.put(anna.clone()), Err(VoiceError::Store(_))));
    assert_eq!((store.held().voices, store.held().bytes), (0, 0));
    fs::remove_dir(&partial).unwrap();
    // Blocks the final name.
    let place = dir.path().join(file_name(&anna));
    fs::create_dir_all(place.join("full")).unwrap();
    assert!(matches!(store.put(anna.clone()), Err(VoiceError::Store(_))));
    assert!(!partial.exists(), "what was written before it failed is gone");
    fs::remove_dir_all(&place).unwrap();
    store.put(anna).unwrap();
}
