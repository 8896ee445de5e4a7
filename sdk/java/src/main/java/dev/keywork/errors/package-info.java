/** What can go wrong, in one exception that answers two questions: may I try again, and can anything have happened? */
package dev.keywork.errors;
