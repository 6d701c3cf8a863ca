#pragma once

namespace forecost {

/// Small shapes of every operator, odd ones among them: what does not fill a library's blocks,
/// asymmetric padding, groups. Every backend's results of them are compared with the references.
inline constexpr const char* small_layers[] = {
    "dense batch=3 in_features=5 out_features=7",
    "dense batch=16 in_features=33 out_features=64 bias=0 activation=relu",
    "dense batch=4 in_features=20 out_features=9 activation=sigmoid",
    "dense batch=4 in_features=20 out_features=9 activation=tanh",
    "conv2d batch=2 in_channels=3 out_channels=5 in_h=9 in_w=7 kernel_h=3 kernel_w=3",
    // Same padding, stride and activation; 17 channels do not fill the library's blocks.
    "conv2d batch=2 in_channels=17 out_channels=16 in_h=8 in_w=8 kernel_h=3 kernel_w=3 stride_h=2 "
    "stride_w=2 pad_bottom=1 pad_right=1 activation=relu",
    "conv2d batch=1 in_channels=8 out_channels=8 in_h=10 in_w=9 kernel_h=3 kernel_w=2 pad_top=2 "
    "pad_left=1 dilation_h=2 dilation_w=3 bias=0 activation=tanh",
    "conv2d batch=2 in_channels=8 out_channels=12 in_h=6 in_w=6 kernel_h=3 kernel_w=3 groups=4 "
    "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=sigmoid",
    // Depthwise.
    "conv2d batch=2 in_channels=16 out_channels=16 in_h=7 in_w=7 kernel_h=3 kernel_w=3 groups=16 "
    "pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 activation=relu",
    "layer_norm batch=2 rows=3 features=33",
    "layer_norm batch=5 features=7 affine=0",
    "softmax batch=2 rows=3 features=21",
    "softmax batch=1 features=300",
    "elementwise batch=3 features=37 operation=add",
    "elementwise batch=3 features=37 operation=add operand=scalar",
    "elementwise batch=3 features=37 operation=subtract",
    "elementwise batch=3 features=37 operation=subtract operand=scalar",
    "elementwise batch=3 features=37 operation=multiply",
    "elementwise batch=3 features=37 operation=multiply operand=scalar",
    "elementwise batch=3 features=37 operation=divide",
    "elementwise batch=3 features=37 operation=divide operand=scalar",
    "elementwise batch=3 features=37 operation=power",
    "elementwise batch=3 features=37 operation=power operand=scalar",
    "elementwise batch=3 features=23333 operation=divide",  // enough for two threads
    "activation batch=3 features=37 function=relu",
    "activation batch=3 features=37 function=tanh",
    "activation batch=3 features=37 function=sigmoid",
    "activation batch=3 features=37 function=gelu",
    "activation batch=3 features=37 function=silu",
    "attention batch=2 heads=3 query_length=5 key_length=7 head_features=9",
    "attention batch=1 heads=2 query_length=33 key_length=33 head_features=16 causal=1",
    // The last of a sequence.
    "attention batch=2 heads=2 query_length=3 key_length=18 head_features=8 causal=1",
    "embedding batch=3 length=5 entries=11 features=7",
    // Each thread gets rows.
    "embedding batch=4 length=9 entries=300 features=130",
    "embedding batch=40 entries=9 features=1000",
    "dropout batch=3 features=37",
    "dropout batch=3 features=23333",
    "transfer batch=3 features=37 direction=device_to_device",
    "transfer batch=3 features=53333 direction=device_to_device",
    "conv_transpose2d batch=2 in_channels=3 out_channels=5 in_h=4 in_w=6 kernel_h=3 kernel_w=2",
    // The upsampling of generators and U-nets; then with one output row more than columns.
    "conv_transpose2d batch=2 in_channels=17 out_channels=16 in_h=5 in_w=5 kernel_h=4 kernel_w=4 "
    "stride_h=2 stride_w=2 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 bias=0",
    "conv_transpose2d batch=1 in_channels=8 out_channels=12 in_h=5 in_w=4 kernel_h=3 kernel_w=3 "
    "stride_h=3 stride_w=2 pad_top=1 pad_left=1 pad_right=1 dilation_h=2 groups=4",
    "pool2d batch=2 channels=16 in_h=8 in_w=9 kernel_h=2 kernel_w=2 stride_h=2 stride_w=2 mode=max",
    "pool2d batch=2 channels=17 in_h=9 in_w=7 kernel_h=3 kernel_w=2 stride_h=2 stride_w=1 "
    "pad_top=1 "
    "pad_left=1 pad_right=1 mode=max",
    // An index of more than one byte.
    "pool2d batch=1 channels=4 in_h=20 in_w=20 kernel_h=17 kernel_w=17 mode=max",
    "pool2d batch=2 channels=5 in_h=6 in_w=6 kernel_h=3 kernel_w=3 stride_h=2 stride_w=3 pad_top=1 "
    "pad_bottom=2 mode=average",
    "pool2d batch=3 channels=33 in_h=7 in_w=5 mode=global_average",
    "batch_norm batch=4 channels=32 height=5 width=3",
    "batch_norm batch=3 channels=17 height=6 width=6",
    "batch_norm batch=3 channels=17 height=6 width=6 training=0",
    "batch_norm batch=20 channels=48",
    "batch_norm batch=20 channels=7",
    "batch_norm batch=20 channels=48 training=0",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 cell=vanilla",
    "rnn batch=2 steps=4 in_features=5 hidden_features=9 layers=2 bidirectional=1 cell=vanilla",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 cell=lstm",
    "rnn batch=1 steps=1 in_features=16 hidden_features=33 bidirectional=1 cell=lstm",
    "rnn batch=4 steps=3 in_features=12 hidden_features=16 layers=3 cell=lstm",
    "rnn batch=3 steps=5 in_features=7 hidden_features=6 layers=2 bidirectional=1 cell=gru",
    // Recurrent weights in a layout of the library's own.
    "rnn batch=32 steps=6 in_features=20 hidden_features=20 cell=gru",
    "reduce batch=3 rows=5 features=37 operation=sum axis=features",
    "reduce batch=3 rows=7 features=37 operation=sum axis=rows",
    "reduce batch=3 rows=5 features=37 operation=mean axis=features",
    "reduce batch=3 rows=7 features=37 operation=mean axis=rows",
    "reduce batch=3 rows=5 features=37 operation=max axis=features",
    "reduce batch=3 rows=7 features=37 operation=max axis=rows",
    // Blocks of columns, the last one smaller, and items that are split among threads.
    "reduce batch=2 rows=50 features=1100 operation=sum axis=rows",
    "reduce batch=1 rows=3000 features=40 operation=max axis=rows",
    "reduce batch=7 rows=3 features=1 operation=mean axis=features",
    "matmul batch=1 m=5 n=3 k=7",
    "matmul batch=6 m=17 n=1 k=40",
    "matmul batch=3 m=1 n=33 k=16",
};

}  // namespace forecost
