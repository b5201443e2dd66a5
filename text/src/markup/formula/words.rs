//! Names of the commands and signs of formulas.

/// Commands that are said, sorted. Those of [`NAMES`] are said as they are called.
#[rustfmt::skip]
pub(super) static SAID: [(&str, &str); 84] = [
    ("%", "percent"), ("approx", "is approximately"), ("arccos", "arc cosine"), ("arcsin", "arc sine"), ("arctan", "arc tangent"),
    ("ast", "times"), ("cap", "intersection"), ("cdot", "times"), ("cdots", "and so on"), ("circ", "of"), ("cong", "is congruent to"),
    ("cos", "cosine"), ("cosh", "hyperbolic cosine"), ("cup", "union"), ("deg", "degree"), ("det", "determinant"), ("div", "divided by"),
    ("dots", "and so on"), ("ell", "l"), ("emptyset", "the empty set"), ("equiv", "is equivalent to"), ("exists", "there exists"),
    ("exp", "exponential of"), ("forall", "for all"), ("gcd", "greatest common divisor"), ("ge", "is at least"), ("geq", "is at least"),
    ("gg", "is much greater than"), ("gt", "is greater than"), ("hbar", "h bar"), ("iff", "if and only if"), ("implies", "implies"),
    ("in", "in"), ("inf", "infimum"), ("infty", "infinity"), ("int", "the integral"), ("land", "and"), ("ldots", "and so on"),
    ("le", "is at most"), ("leftarrow", "from"), ("leq", "is at most"), ("lim", "the limit"), ("ll", "is much less than"),
    ("ln", "natural log"), ("lnot", "not"), ("log", "log"), ("lor", "or"), ("lt", "is less than"), ("mapsto", "maps to"),
    ("max", "maximum"), ("mid", "given"), ("min", "minimum"), ("mod", "modulo"), ("mp", "minus or plus"), ("ne", "is not equal to"),
    ("neg", "not"), ("neq", "is not equal to"), ("ni", "contains"), ("notin", "not in"), ("parallel", "is parallel to"),
    ("partial", "partial"), ("perp", "is perpendicular to"), ("pm", "plus or minus"), ("prime", "prime"), ("prod", "the product"),
    ("propto", "is proportional to"), ("qquad", ""), ("quad", ""), ("rightarrow", "to"), ("setminus", "minus"),
    ("sim", "is similar to"), ("simeq", "is approximately"), ("sin", "sine"), ("sinh", "hyperbolic sine"), ("subset", "is a subset of"),
    ("subseteq", "is a subset of"), ("sum", "the sum"), ("sup", "supremum"), ("tan", "tangent"), ("tanh", "hyperbolic tangent"),
    ("times", "times"), ("to", "to"), ("vdots", "and so on"), ("wedge", "and"),
];
pub(super) static NAMES: &str = "\
    alpha angle beta chi delta epsilon eta gamma iota kappa lambda mu nabla nu omega phi pi psi rho sigma tau theta \
    triangle upsilon varepsilon vee xi zeta";
/// Commands whose argument alone is said.
pub(super) static PLAIN: &str = "\
    boxed emph hbox mathbb mathbf mathcal mathit mathrm mathsf mbox operatorname text textbf textit textrm";
/// Commands that say nothing.
pub(super) static SILENT: &str = "! , : ; \\ { } Big Bigg big bigg displaystyle left limits right textstyle";
/// Accents on a letter.
#[rustfmt::skip]
pub(super) static ACCENTS: [(&str, &str); 8] = [
    ("bar", "bar"), ("dot", "dot"), ("hat", "hat"), ("overline", "bar"), ("tilde", "tilde"), ("underline", ""),
    ("vec", "vector"), ("widehat", "hat"),
];
/// Signs that are said in other words than in running text.
#[rustfmt::skip]
pub(super) static SIGNS: [(char, &str); 9] = [
    ('-', "minus"), ('\u{2212}', "minus"), ('*', "times"), ('<', "is less than"), ('>', "is greater than"),
    ('!', "factorial"), ('|', ""), ('[', ""), (']', ""),
];
