// The editor of the practice pages: CodeMirror 6 with what Python needs. `make editor` bundles it for the site.
//
// A page opened from disk may add scripts but not import modules, so the bundle is a script that sets a global function.
import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory } from "@codemirror/commands";
import { pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

/** Makes an editor of Python. Its colours are in practice.css, where tokens have classes such as .tok-keyword.
 *
 *  code         the text to begin with
 *  selection    what is selected in it, as { anchor, head }
 *  attributes   those of the element in which the reader types, such as aria-label
 *  changed      called with the text after every change
 *
 *  Returns { element, focus(), text(), replace(text) }; a replaced text can be undone.
 */
globalThis.glassformerEditor = ({ code, selection, attributes, changed }) => {
  const view = new EditorView({
    state: EditorState.create({
      doc: code,
      selection,
      extensions: [
        history(),
        highlightSpecialChars(),
        indentUnit.of("    "),
        EditorState.tabSize.of(4),
        indentOnInput(),
        bracketMatching(),
        pythonLanguage,
        syntaxHighlighting(classHighlighter),
        // Escape, then Tab leaves the editor: CodeMirror sees to that itself.
        keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({
          autocapitalize: "off",
          autocorrect: "off",
          spellcheck: "false",
          tabindex: "0", // it has the focus anyway, but tools that look for what the keyboard reaches do not know that
          ...attributes,
        }),
        EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString())),
      ],
    }),
  });
  return {
    element: view.dom,
    focus: () => view.focus(),
    text: () => view.state.doc.toString(),
    replace: (text) =>
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: text },
        annotations: isolateHistory.of("full"), // undone by itself
      }),
  };
};
