//! What stands outside of functions: variables, functions, directives.

use super::token::Kind;
use super::{Cursor, ParseError, Problem, Statement};

/// Something declared at the top of a module.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Item<'t> {
    Variable(u32, Variable<'t>),
    Function(FunctionText<'t>),
}

/// A variable in a state space.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Variable<'t> {
    /// With its dot: `.global`, `.const`, `.shared`, `.local`, `.param`.
    pub(crate) space: &'t str,
    pub(crate) name: &'t str,
    pub(crate) is_extern: bool,
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(crate) element: u64,
    /// Elements; 0 for an array whose size is given at launch.
    pub(crate) count: u64,
    pub(crate) align: u64,
    pub(crate) values: Vec<Value<'t>>,
}

impl Variable<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.element.saturating_mul(self.count)
    }
}

/// One element of an initialiser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'t> {
    Number(u64),
    /// The address of a symbol, plus an offset, as it is or as a generic address; `mask` picks the
    /// bits that this element holds.
    Symbol {
        name: &'t str,
        generic: bool,
        offset: i64,
        mask: Option<u64>,
    },
}

/// A function or an entry point.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FunctionText<'t> {
    pub(crate) line: u32,
    pub(crate) name: &'t str,
    pub(crate) is_entry: bool,
    pub(crate) returns: Vec<Variable<'t>>,
    pub(crate) parameters: Vec<Variable<'t>>,
    /// Threads of a block at most, or exactly, as `.maxntid` and `.reqntid` say.
    pub(crate) most_threads: Option<u64>,
    /// Nothing for a declaration.
    pub(crate) body: Option<Body<'t>>,
}

/// Statements with their lines.
pub(crate) type Body<'t> = Vec<(u32, Statement<'t>)>;

impl<'t> Cursor<'_, 't> {
    pub(super) fn module(mut self) -> Result<Vec<Item<'t>>, ParseError> {
        let mut found = Vec::new();
        loop {
            let line = self.line();
            match self.peek() {
                Kind::End => return Ok(found),
                Kind::Word(".version" | ".target" | ".file" | ".pragma" | ".loc") => {
                    while self.line() == line && self.next() != Kind::End {}
                }
                Kind::Word(".address_size") => {
                    self.next();
                    if self.peek() != Kind::Number(64) {
                        return Err(self.unexpected("`64`: addresses have 64 bits"));
                    }
                    self.next();
                }
                Kind::Word(".section") => self.skip_section()?,
                Kind::Word(word) if word.starts_with('.') => {
                    if let Some(item) = self.item(line)? {
                        found.push(item);
                    }
                }
                Kind::Mark(';') => {
                    self.next();
                }
                _ => return Err(self.unexpected("a directive")),
            }
        }
    }

    /// Debug information.
    fn skip_section(&mut self) -> Result<(), ParseError> {
        while self.peek() != Kind::Mark('}') {
            if self.next() == Kind::End {
                return Err(self.error(Problem::Unclosed("a section")));
            }
        }
        self.next();
        Ok(())
    }

    fn item(&mut self, line: u32) -> Result<Option<Item<'t>>, ParseError> {
        let mut is_extern = false;
        loop {
            match self.peek() {
                Kind::Word(".visible" | ".weak" | ".common") => {
                    self.next();
                }
                Kind::Word(".extern") => {
                    self.next();
                    is_extern = true;
                }
                Kind::Word(".alias") => {
                    return Err(self.error(Problem::Directive(".alias".to_owned())));
                }
                Kind::Word(".func") => {
                    self.next();
                    return self.function(line, false).map(Some);
                }
                Kind::Word(".entry") => {
                    self.next();
                    return self.function(line, true).map(Some);
                }
                _ => {
                    let mut variable = self.variable()?;
                    variable.is_extern = is_extern;
                    return Ok(Some(Item::Variable(line, variable)));
                }
            }
        }
    }

    fn function(&mut self, line: u32, is_entry: bool) -> Result<Item<'t>, ParseError> {
        let returns = match self.peek() {
            Kind::Mark('(') => self.formals()?,
            _ => Vec::new(),
        };
        let name = self.word("the name of a function")?;
        let parameters = match self.peek() {
            Kind::Mark('(') => self.formals()?,
            _ => Vec::new(),
        };
        let most_threads = self.function_directives()?;
        let body = if self.takes('{') {
            Some(self.statements()?)
        } else {
            self.mark(';', "`{` or `;`")?;
            None
        };
        Ok(Item::Function(FunctionText {
            line,
            name,
            is_entry,
            returns,
            parameters,
            most_threads,
            body,
        }))
    }

    /// What may stand between a function's head and its body.
    fn function_directives(&mut self) -> Result<Option<u64>, ParseError> {
        let mut most_threads = None;
        while let Kind::Word(word) = self.peek() {
            self.next();
            match word {
                ".noreturn" | ".explicitcluster" => {}
                ".maxntid" | ".reqntid" => {
                    most_threads = Some(self.product()?);
                }
                ".minnctapersm"
                | ".maxnctapersm"
                | ".maxnreg"
                | ".reqnctapercluster"
                | ".maxclusterrank"
                | ".abi_preserve"
                | ".abi_preserve_control" => {
                    self.product()?;
                }
                ".pragma" => {
                    self.next();
                    self.mark(';', "`;`")?;
                }
                _ => {
                    self.at -= 1;
                    return Err(self.error(Problem::Directive(word.to_owned())));
                }
            }
        }
        Ok(most_threads)
    }

    /// `a, b, c` multiplied.
    fn product(&mut self) -> Result<u64, ParseError> {
        let mut product = 1u64;
        loop {
            product = product.saturating_mul(self.number("a number")?);
            if !self.takes(',') {
                return Ok(product);
            }
        }
    }

    fn formals(&mut self) -> Result<Vec<Variable<'t>>, ParseError> {
        self.next();
        let mut found = Vec::new();
        if self.takes(')') {
            return Ok(found);
        }
        loop {
            if self.peek() != Kind::Word(".param") {
                return Err(self.unexpected("`.param`"));
            }
            found.push(self.declaration()?);
            if !self.takes(',') {
                break;
            }
        }
        self.mark(')', "`,` or `)`")?;
        Ok(found)
    }

    /// A variable with its semicolon.
    pub(super) fn variable(&mut self) -> Result<Variable<'t>, ParseError> {
        let mut variable = self.declaration()?;
        if self.takes('=') {
            variable.values = match self.peek() {
                Kind::Mark('{') => self.values()?,
                _ => vec![self.value()?],
            };
            if variable.count == 0 {
                variable.count = variable.values.len() as u64;
            }
            if variable.values.len() as u64 > variable.count {
                return Err(self.error(Problem::TooMany {
                    what: "values of an initialiser",
                    have: variable.values.len() as u64,
                    most: variable.count,
                }));
            }
        }
        self.mark(';', "`;`")?;
        Ok(variable)
    }

    fn declaration(&mut self) -> Result<Variable<'t>, ParseError> {
        let space = self.word("a state space")?;
        if !matches!(
            space,
            ".global" | ".const" | ".shared" | ".local" | ".param"
        ) {
            self.at -= 1;
            return Err(self.error(Problem::Directive(space.to_owned())));
        }
        let mut align = None;
        let mut element = None;
        let name = loop {
            match self.word("a type or a name")? {
                ".align" => align = Some(self.number("an alignment")?),
                ".ptr" | ".global" | ".const" | ".shared" | ".local" | ".generic" => {}
                ".attribute" => self.skip_attribute()?,
                word if word.starts_with('.') => {
                    let bytes = type_bytes(word);
                    element.get_or_insert(bytes.ok_or_else(|| {
                        self.at -= 1;
                        self.error(Problem::Directive(word.to_owned()))
                    })?);
                }
                name => break name,
            }
        };
        let element = element.ok_or_else(|| self.unexpected("a type before the name"))?;
        let mut count = 1u64;
        while self.takes('[') {
            let length = match self.peek() {
                Kind::Mark(']') => 0,
                _ => self.number("how many")?,
            };
            count = count.saturating_mul(length);
            self.mark(']', "`]`")?;
        }
        Ok(Variable {
            space,
            name,
            is_extern: false,
            element,
            count,
            // A pointer's `.align` is that of what it points to; asking for more does no harm.
            align: align.unwrap_or(element).max(element),
            values: Vec::new(),
        })
    }

    fn skip_attribute(&mut self) -> Result<(), ParseError> {
        while !self.takes(')') {
            if self.next() == Kind::End {
                return Err(self.error(Problem::Unclosed("an attribute")));
            }
        }
        Ok(())
    }

    fn values(&mut self) -> Result<Vec<Value<'t>>, ParseError> {
        self.next();
        let mut found = Vec::new();
        // All zeros.
        if self.takes('}') {
            return Ok(found);
        }
        loop {
            if self.peek() == Kind::Mark('{') {
                found.extend(self.values()?);
            } else {
                found.push(self.value()?);
            }
            if !self.takes(',') {
                break;
            }
        }
        self.mark('}', "`,` or `}`")?;
        Ok(found)
    }

    /// `7`, `name`, `name+7`, `generic(name)+7`, `0xFF00(name)`.
    fn value(&mut self) -> Result<Value<'t>, ParseError> {
        if let Kind::Word(_) = self.peek() {
            return self.symbol(None);
        }
        let number = self.number("a value")?;
        if !self.takes('(') {
            return Ok(Value::Number(number));
        }
        let symbol = self.symbol(Some(number))?;
        self.mark(')', "`)`")?;
        Ok(symbol)
    }

    fn symbol(&mut self, mask: Option<u64>) -> Result<Value<'t>, ParseError> {
        let mut name = self.word("a symbol")?;
        let generic = name == "generic" && self.takes('(');
        if generic {
            name = self.word("a symbol")?;
            self.mark(')', "`)`")?;
        }
        let offset = match self.takes('+') {
            true => self.number("an offset")? as i64,
            false => 0,
        };
        Ok(Value::Symbol {
            name,
            generic,
            offset,
            mask,
        })
    }
}

/// Bytes of a type of memory.
pub(crate) fn type_bytes(word: &str) -> Option<u64> {
    Some(match word {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" => 2,
        ".b32" | ".u32" | ".s32" => 4,
        ".b64" | ".u64" | ".s64" => 8,
        _ => return None,
    })
}
