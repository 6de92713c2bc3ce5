//! The recipes of the guide, found by the words that people search for.

use std::fmt::Write as _;

use freerun_conf::plain;

/// The pages of the guide with recipes. A recipe is a section with a comment `<!-- words: … -->`.
const PAGES: [&str; 3] = [
    include_str!("../../../../../docs/guide/recipes.md"),
    include_str!("../../../../../docs/guide/recipes-access.md"),
    include_str!("../../../../../docs/guide/recipes-applications.md"),
];

/// The beginning of the comment with the words.
const WORDS: &str = "<!-- words: ";

/// A recipe.
struct Recipe {
    title: &'static str,
    words: &'static str,
    /// The section below the comment.
    text: &'static str,
}

/// All recipes, in the order of the pages.
fn all() -> impl Iterator<Item = Recipe> {
    PAGES.iter().flat_map(|page| page.split("\n## ").skip(1)).filter_map(|section| {
        let (title, rest) = section.split_once('\n')?;
        let (words, text) = rest.trim_start().strip_prefix(WORDS)?.split_once(" -->")?;
        Some(Recipe { title, words, text })
    })
}

/// The words of all recipes, each once for each recipe.
pub fn words() -> impl Iterator<Item = &'static str> {
    all().flat_map(|recipe| recipe.words.split(", "))
}

/// The recipes that a word finds, in any case, as plain text for a terminal: those that have it among their words, or in their
/// titles.
pub fn explain(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let is_found = |recipe: &Recipe| {
        let of_title = recipe.title.to_lowercase();
        let mut title = of_title.split(|letter: char| !letter.is_alphanumeric());
        recipe.words.split(", ").any(|known| known == word) || word.len() > 2 && title.any(|part| part == word)
    };
    let mut text = String::new();
    for recipe in all().filter(is_found) {
        if !text.is_empty() {
            text += "\n";
        }
        let _ = writeln!(text, "{}", recipe.title);
        for (index, part) in recipe.text.split("\n```").enumerate() {
            // The text before a block, or the block behind its language, or the text behind the block.
            match (index % 2, part.split_once('\n')) {
                (1, Some((language, block))) => {
                    let _ =
                        writeln!(text, "\n  {}\n", if language == "nginx" { "The configuration:" } else { "Tried:" });
                    for line in block.lines() {
                        let _ = writeln!(text, "{}", format!("      {line}").trim_end());
                    }
                }
                _ if part.trim().is_empty() => {}
                _ => {
                    let _ = write!(text, "\n{}", plain(part.trim(), 2));
                }
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_recipe_of_the_guide_is_found_by_its_words() {
        let sections: usize = PAGES.iter().map(|page| page.matches("\n## ").count()).sum();
        assert_eq!(all().count(), sections, "a section has no words");
        assert!(sections > 30, "{sections}");
        for recipe in all() {
            let first = recipe.words.split(", ").next().expect("a word");
            let text = explain(first).expect(first);
            assert!(text.contains(recipe.title) && text.contains("The configuration:"), "{text}");
        }
        let titles: BTreeSet<_> = all().map(|recipe| recipe.title).collect();
        assert_eq!(titles.len(), sections, "two recipes have a title");
    }

    #[test]
    fn words_of_people_find_recipes() {
        for (word, line) in [
            ("cors", "add_header Access-Control-Allow-Origin  $allowed_origin;"),
            ("CORS", "$ allowed -H 'Origin: https://app.example.com'"),
            ("websocket", "proxy_set_header Upgrade    $http_upgrade;"),
            ("maintenance", "return 503;"),
            ("wordpress", "try_files $uri $uri/ /index.php?$args;"),
        ] {
            let text = explain(word).expect(word);
            assert!(text.contains(line), "{word}: {text}");
        }
        assert_eq!(explain("nothing-of-all"), None);
        assert_eq!(explain("a"), None);
    }
}
