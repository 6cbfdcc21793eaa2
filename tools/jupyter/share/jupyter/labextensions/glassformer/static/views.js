// An extension of JupyterLab and Jupyter Notebook, written by hand in the form of their bundler: one module, no imports.
//
// jupyterlab_widgets 3.0.17 says that all views of a notebook are restored when it has only asked the kernel, which it
// does as soon as a kernel is connected. A view that is drawn then, while those that the notebook has stored are still
// being read, says "Error displaying widget: model not found" after two seconds, and never looks again. In a browser that
// was slowed by four, three of five first openings lost views. With this extension, a view looks again when more is restored,
// and at once if its state came just when it stopped waiting.

const VIEW = "application/vnd.jupyter.widget-view+json";
let patched = null;

// The class that draws views can only be reached through an object that a notebook makes.
function lookAgain(rendermime) {
  if (!rendermime.mimeTypes.includes(VIEW)) return;
  const renderers = Object.getPrototypeOf(rendermime.createRenderer(VIEW));
  if (renderers === patched) return;
  patched = renderers;
  const { renderModel } = renderers;
  renderers.renderModel = async function (output) {
    await renderModel.call(this, output);
    const isMissing = () => !this.isDisposed && this.widgets.length === 0;
    if (!isMissing()) return;
    const manager = await this._manager.promise;
    if (manager.has_model(output.data[VIEW].model_id)) await renderModel.call(this, output);
    if (isMissing()) this._rerenderMimeModel = output; // what "restored" draws again
  };
}

const plugin = {
  id: "glassformer:views",
  autoStart: true,
  activate(app) {
    app.docRegistry.addWidgetExtension("Notebook", {
      createNew(panel) {
        lookAgain(panel.content.rendermime);
      },
    });
  },
};

window._JUPYTERLAB = window._JUPYTERLAB ?? {};
window._JUPYTERLAB.glassformer = { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
